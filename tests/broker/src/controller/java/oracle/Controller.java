package oracle;

import java.nio.file.Files;
import java.nio.file.Paths;

import org.apache.rocketmq.common.ControllerConfig;
import org.apache.rocketmq.controller.ControllerManager;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;

/**
 * A name server and a controller of one member in this JVM, which choose a master among brokers, also one that is behind.
 * argv: a file with the job as JSON. Ends when its input ends.
 */
public final class Controller {
    private static final int FAILED = 9;
    private static final int SCAN_MILLIS = 1000;
    private static final int FILE_SIZE = 10 << 20;

    private Controller() {
    }

    public static void main(String[] args) {
        try {
            Job job = Batch.parse(Files.readString(Paths.get(args[0])));
            Whole.startNameServer((int) job.num("nameServerPort", 0));
            start((int) job.num("controllerPort", 0));
            while (System.in.read() >= 0) { // until the one who started it closes its end
            }
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(FAILED);
        }
        System.exit(0);
    }

    private static void start(int port) {
        ControllerConfig config = new ControllerConfig();
        config.setControllerDLegerGroup("controllers");
        config.setControllerDLegerPeers("n0-127.0.0.1:" + port);
        config.setControllerDLegerSelfId("n0");
        config.setControllerStorePath(System.getProperty("rocketmq.home.dir") + "/controller");
        config.setEnableElectUncleanMaster(true);
        config.setScanNotActiveBrokerInterval(SCAN_MILLIS);
        config.setMappedFileSize(FILE_SIZE);
        ControllerManager manager = new ControllerManager(config, new NettyServerConfig(), new NettyClientConfig());
        if (!manager.initialize()) {
            throw new IllegalStateException("the controller does not start");
        }
        manager.start();
    }
}
