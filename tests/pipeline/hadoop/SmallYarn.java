import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A resource manager and a node manager, until the process is killed. argv: where to write the configuration for clients once they run. */
public final class SmallYarn {
    private SmallYarn() {
    }

    public static void main(String[] args) throws Exception {
        Configuration conf = new YarnConfiguration();
        conf.setInt("yarn.scheduler.minimum-allocation-mb", 256);
        conf.setBoolean("yarn.nodemanager.disk-health-checker.enable", false);
        conf.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
        conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
        conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.9");
        MiniYARNCluster cluster = new MiniYARNCluster("small", 1, 1, 1);
        cluster.init(conf);
        cluster.start();
        Path file = Path.of(args[0]);
        Path written = file.resolveSibling(file.getFileName() + ".new");
        try (OutputStream out = Files.newOutputStream(written)) {
            cluster.getConfig().writeXml(out);
        }
        Files.move(written, file, StandardCopyOption.ATOMIC_MOVE);
        Thread.currentThread().join();
    }
}
