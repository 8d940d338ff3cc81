package oracle;

import java.util.Map;
import java.util.function.Consumer;

/** Keeps a started store open until stdin ends. One line tells that the store has started. */
final class Hold {
    private Hold() {
    }

    static Map<String, Object> run(Job job, Consumer<Map<String, Object>> lines) throws Exception {
        StoreBox box = new StoreBox(job);
        if (!box.store.load()) {
            throw new IllegalStateException("the store does not load");
        }
        box.store.start();
        box.settle(job.num("settleMillis", 20000));
        lines.accept(Json.map("kind", "held"));
        while (System.in.read() >= 0) {
            // whoever started this process closes its stdin
        }
        box.store.shutdown();
        return Json.map("version", Main.version());
    }
}
