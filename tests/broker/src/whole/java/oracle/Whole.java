package oracle;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * A name server and a broker in this JVM, started as their scripts start them, and clients that ask for everything.
 * argv: a file with the job as JSON, a file for the answer, one JSON line per message, key, id… The end of the JVM stops
 * the broker cleanly, by its own shutdown hook; a broker that does not start ends the JVM with its own exit status.
 */
public final class Whole {
    private static final int FAILED = 9;
    private static final int PATIENCE = 200;
    private static final int UNTIL_REGISTERED_AGAIN = 10;
    private static final long PAUSE_MILLIS = 100;
    private static final long MOMENT_MILLIS = 2000;

    private Whole() {
    }

    public static void main(String[] args) {
        try {
            Job job = Batch.parse(Files.readString(Paths.get(args[0])));
            Path answer = Paths.get(args[1]);
            try (PrintStream out = new PrintStream(answer.toFile(), StandardCharsets.UTF_8)) {
                serve(job, line -> out.println(Json.write(line)));
            }
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(FAILED); // threads of brokers and clients would keep the JVM alive
        }
        System.exit(0);
    }

    static String nameServer(Job job) {
        return "127.0.0.1:" + job.num("nameServerPort", 0);
    }

    /** A name server and a broker that is registered there. */
    static BrokerController up(Job job) throws Exception {
        if (!job.flag("joins")) { // the name server of another process
            startNameServer((int) job.num("nameServerPort", 0));
        }
        return joined(job);
    }

    /** A broker that is registered with a name server that runs. */
    static BrokerController joined(Job job) throws Exception {
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
        BrokerController controller = BrokerStartup.createBrokerController(new String[] {"-c", job.text("conf", ""), "-n", nameServer(job)});
        BrokerStartup.start(controller);
        awaitRoute(controller, nameServer(job));
        return controller;
    }

    private static void serve(Job job, Consumer<Map<String, Object>> lines) throws Exception {
        BrokerController controller = up(job);
        String nameServer = nameServer(job);
        boolean caughtUp = catchesUp(controller);
        try (Wire broker = new Wire(controller.getBrokerAddr())) {
            Pulls pulls = new Pulls(broker, Boolean.TRUE.equals(job.raw.get("compacted")), lines);
            if (job.raw.get("delayed") instanceof List<?> seconds && job.raw.get("levels") instanceof List<?> levels
                && seconds.size() + levels.size() > 0) {
                Sends.delayed(nameServer, pulls, seconds, levels, lines);
            }
            await(broker, (int) job.num("messages", 0), job.num("wait", 0));
            pulls.queues((List<?>) job.raw.get("queues"));
            pulls.keys((List<?>) job.raw.get("keys"));
            pulls.ids((List<?>) job.raw.get("ids"));
            if (job.flag("send")) {
                Sends.all(nameServer, broker.topics(), lines);
                caughtUp &= catchesUp(controller);
            }
        }
        lines.accept(Json.map("kind", "end", "caughtUp", caughtUp));
    }

    static void startNameServer(int port) throws Exception {
        NamesrvConfig names = new NamesrvConfig();
        names.setRocketmqHome(System.getProperty("rocketmq.home.dir"));
        names.setKvConfigPath(System.getProperty("rocketmq.home.dir") + "/kvConfig.json");
        NettyServerConfig server = new NettyServerConfig();
        server.setListenPort(port);
        server.setServerWorkerThreads(1);
        Properties bind = new Properties();
        bind.setProperty("bindAddress", "127.0.0.1"); // 4.9 has no such switch
        MixAll.properties2Object(bind, server);
        NamesrvController controller = new NamesrvController(names, server);
        if (!controller.initialize()) {
            throw new IllegalStateException("the name server does not start");
        }
        controller.start();
    }

    /** 5.x registers 10 s after its start, if nobody asks for it; until then clients have no route. */
    private static void awaitRoute(BrokerController controller, String nameServer) throws Exception {
        String name = '"' + controller.getBrokerConfig().getBrokerName() + '"';
        try (Wire names = new Wire(nameServer)) {
            for (int tries = 0; tries < PATIENCE; tries++) {
                if (tries % UNTIL_REGISTERED_AGAIN == 0) {
                    controller.registerBrokerAll(true, false, true);
                }
                try {
                    if (Wire.text(names.demand(Wire.CLUSTER)).contains(name)) {
                        return;
                    }
                } catch (RemotingException e) {
                    // A busy machine takes no connection for some seconds.
                }
                Thread.sleep(PAUSE_MILLIS);
            }
        }
        throw new IllegalStateException("the broker does not register");
    }

    /** Until so many delayed messages arrived and another moment passed, or so many seconds. */
    private static void await(Wire broker, int messages, long seconds) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (System.nanoTime() < end && (messages == 0 || broker.offset(Wire.MAX_OFFSET, Sends.DELAYED_TOPIC, 0) < messages)) {
            Thread.sleep(PAUSE_MILLIS);
        }
        Thread.sleep(messages == 0 ? 0 : MOMENT_MILLIS);
    }

    private static boolean catchesUp(BrokerController controller) throws InterruptedException {
        for (int tries = 0; tries < PATIENCE; tries++) {
            if (controller.getMessageStore().dispatchBehindBytes() <= 0) {
                return true;
            }
            Thread.sleep(PAUSE_MILLIS);
        }
        return false;
    }
}
