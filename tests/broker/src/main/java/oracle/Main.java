package oracle;

import java.io.PrintStream;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Consumer;

/** Entry point; every command prints JSON on stdout (one object, or one object per line). */
public final class Main {
    static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);

    private Main() {
    }

    static String version() {
        return System.getProperty("oracle.version", "?");
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // nothing but our JSON on stdout
        Compat.installLogTap();
        if (args.length == 0) {
            System.err.println("commands: write recover read hold batch exec");
            System.exit(2);
        }
        int rc = 0;
        if (args[0].equals("batch")) {
            Batch.run(Job.fromArgs(args));
        } else {
            Job job = args[0].equals("exec")
                ? Batch.parse(new String(System.in.readAllBytes(), StandardCharsets.UTF_8)) : Job.fromArgs(args);
            Map<String, Object> r = Batch.guarded(job, m -> OUT.println(Json.write(m)));
            OUT.println(Json.write(r));
            OUT.flush();
            rc = r.containsKey("failed") ? 1 : 0;
        }
        Runtime.getRuntime().halt(rc); // no shutdown hooks, no waiting for leaked threads; --crash relies on it
    }

    static Map<String, Object> execute(Job job, Consumer<Map<String, Object>> lines) throws Exception {
        switch (job.command()) {
            case "recover":
                return Recover.run(job);
            case "write":
                return Write.run(job);
            case "read":
                return Read.run(job, lines);
            case "hold":
                return Hold.run(job, lines);
            default:
                throw new IllegalArgumentException("unknown command " + job.command());
        }
    }
}
