package oracle;

import java.nio.file.Files;
import java.nio.file.Paths;

/**
 * A broker in this JVM that registers with the name server of another one, as a slave does. argv: a file with the job as
 * JSON. Ends cleanly when its input ends, or by SIGKILL.
 */
public final class Replica {
    private static final int FAILED = 9;

    private Replica() {
    }

    public static void main(String[] args) {
        try {
            Job job = Batch.parse(Files.readString(Paths.get(args[0])));
            Whole.joined(job);
            while (System.in.read() >= 0) { // until the one who started it closes its end
            }
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(FAILED); // threads of brokers and clients would keep the JVM alive
        }
        System.exit(0);
    }
}
