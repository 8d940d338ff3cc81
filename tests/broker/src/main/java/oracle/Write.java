package oracle;

import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.zip.CRC32;

import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.store.PutMessageResult;

/**
 * Writes a store through putMessage(s). Content is a function of scenario, seed and count only; times are real.
 * Shapes that the broker (not the store) produces are built by hand the way the broker does: half / op messages,
 * and for 5.x schedule messages.
 */
final class Write {
    private static final int COMPRESSED = 0x1;
    private static final int COMMIT = 0x8;
    private static final int ROLLBACK = 0xC;
    private static final int PREPARED = 0x4;
    private static final int INNER_BATCH = 0x80 | 0x40;

    private final Job job;
    private final StoreBox box;
    private final Random rnd;
    private final int count;
    private final boolean gen4 = Main.version().startsWith("4.");
    private final List<long[]> puts = new ArrayList<>(); // physical offset, bytes, messages
    private final List<Map<String, Object>> refused = new ArrayList<>();
    private int serial;

    private Write(Job job, StoreBox box) {
        this.job = job;
        this.box = box;
        this.rnd = new Random(job.num("seed", 1));
        this.count = (int) job.num("count", 400);
    }

    /** Settings that a scenario needs on top of the caller's; reported in the result. */
    static void scenarioSettings(Job job) {
        Map<String, Object> set = new LinkedHashMap<>();
        switch (job.text("scenario", "plain")) {
            case "lmq":
                set.put("enableLmq", true);
                set.put("enableMultiDispatch", true);
                break;
            case "propcrc":
                set.put("enabledAppendPropCRC", true);
                break;
            case "cqext":
                set.put("enableConsumeQueueExt", true);
                break;
            case "transientpool":
                set.put("transientStorePoolEnable", true);
                break;
            case "multipath":
                set.put("storePathCommitLog", "{root}/commitlog,{root}/commitlog2");
                break;
            case "rocksdb":
                set.put("storeType", "defaultRocksDB");
                break;
            case "batchcq":
                Map<String, Object> topics = job.map("topics");
                topics.putIfAbsent("BatchTopic", Json.map("queue.type", "BatchCQ"));
                job.raw.put("topics", topics);
                break;
            default:
        }
        set.putAll(job.map("set"));
        job.raw.put("set", set);
    }

    static Map<String, Object> run(Job job) throws Exception {
        scenarioSettings(job);
        Path root = job.dir();
        if (Files.exists(root) && root.toFile().list().length > 0 && !job.flag("append")) {
            throw new IllegalArgumentException("not empty: " + root);
        }
        Files.createDirectories(root);
        LogTap tap = LogTap.begin(Thread.currentThread().getThreadGroup(), root.toString());
        StoreBox box = new StoreBox(job);
        if (job.text("scenario", "plain").equals("cqext")) { // the broker's filter dispatcher fills the bitmap
            box.store.getDispatcherList().addFirst(r -> {
                byte[] bits = new byte[14];
                new Random(r.getCommitLogOffset()).nextBytes(bits);
                r.setBitMap(bits);
            });
        }
        if (!box.store.load()) {
            throw new IllegalStateException("load failed: " + Json.write(tap.drain()));
        }
        box.store.start();
        Write w = new Write(job, box);
        w.scenario(job.text("scenario", "plain"));
        boolean caughtUp = job.flag("nosettle") || box.settle(job.num("settleMillis", 60000));
        if (job.flag("crash") && job.num("crashDelayMillis", 0) > 0) {
            Thread.sleep(job.num("crashDelayMillis", 0));
        }
        Path truth = Paths.get(job.text("messages", root + ".messages.jsonl"));
        long listed = w.truth(truth);
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("version", Main.version());
        out.put("scenario", job.text("scenario", "plain"));
        out.put("seed", job.num("seed", 1));
        out.put("count", w.count);
        out.put("settings", box.effective);
        out.put("topics", job.map("topics"));
        out.put("puts", w.puts.size());
        out.put("messages", listed);
        out.put("refused", w.refused);
        out.put("caughtUp", caughtUp);
        out.put("state", box.snapshot());
        if (w.headless()) {
            w.expire(out);
        }
        out.put("crash", job.flag("crash"));
        if (!job.flag("crash")) {
            box.store.shutdown();
        }
        out.put("log", tap.drain());
        return out;
    }

    // ---------------------------------------------------------------- scenarios

    private void scenario(String name) throws Exception {
        switch (name) {
            case "empty":
                return;
            case "batch":
                batches();
                return;
            case "batchcq":
                innerBatches();
                return;
            case "transactions":
                transactions();
                return;
            default:
        }
        for (int i = 0; i < count; i++) {
            Inner m = plain(i);
            switch (name) {
                case "plain":
                case "headless":
                case "propcrc":
                case "cqext":
                case "transientpool":
                case "multipath":
                case "rocksdb":
                    break;
                case "compressed":
                    compress(m, i);
                    break;
                case "ipv6":
                    hosts(m, (i & 1) != 0, (i & 2) != 0);
                    break;
                case "longtopic":
                    if (i % 3 == 0) {
                        m.setTopic("%RETRY%" + "g".repeat(121 + i % 20) + (i % 20 < 2 ? "" : "x".repeat(i % 100)));
                        m.setQueueId(0);
                    } else if (i % 3 == 1) {
                        m.setTopic("t".repeat(i % 2 == 0 ? 127 : 126));
                    }
                    break;
                case "lmq":
                    if (i % 3 != 2) {
                        prop(m, "INNER_MULTI_DISPATCH", i % 3 == 0 ? "%LMQ%a,%LMQ%b" + i % 4 : "%LMQ%c");
                    }
                    break;
                case "schedule":
                    schedule(m, i);
                    break;
                default:
                    throw new IllegalArgumentException("unknown scenario " + name);
            }
            put(m);
        }
    }

    private static final String[] TOPICS = {"TopicA", "topic-b_2", "%RETRY%group_x", "Orders", "%DLQ%group_x", "T"};
    private static final int[] QUEUES = {4, 2, 1, 8, 1, 3};
    private static final String[] TAGS = {"TagA", "TagB", null, "\u6807\u7b7e", "polygenelubricants", "A||B", "\ud83d\ude80x", "z"};

    /** A message with a mix of topics, tags, keys, properties and body sizes. */
    private Inner plain(int i) {
        int t = Math.min(TOPICS.length - 1, (int) Math.abs(rnd.nextGaussian() * 2));
        int r = rnd.nextInt(100);
        int size = r < 3 ? 0 : r < 60 ? rnd.nextInt(200) : r < 95 ? rnd.nextInt(1200) : 1200 + rnd.nextInt(5000);
        Inner m = message(TOPICS[t], rnd.nextInt(QUEUES[t]), body(size));
        if (rnd.nextInt(10) > 0) {
            prop(m, "UNIQ_KEY", uniq());
        }
        String tag = TAGS[rnd.nextInt(TAGS.length)];
        if (tag != null) {
            prop(m, "TAGS", tag);
        }
        switch (rnd.nextInt(5)) {
            case 0: prop(m, "KEYS", "k" + i); break;
            case 1: prop(m, "KEYS", "k" + i + " common order-" + rnd.nextInt(20)); break;
            case 2: prop(m, "KEYS", "dup  dup k" + i + " \u952e"); break;
            default:
        }
        if (rnd.nextInt(3) == 0) {
            prop(m, "user_p" + rnd.nextInt(3), "v\u00e9" + rnd.nextInt(1000));
        }
        prop(m, "CLUSTER", "DefaultCluster");
        m.setFlag(rnd.nextInt(4) == 0 ? rnd.nextInt() : 0);
        m.setReconsumeTimes(rnd.nextInt(8) == 0 ? rnd.nextInt(16) : 0);
        return m;
    }

    private void compress(Inner m, int i) throws Exception {
        byte[] raw = ("compressible " + i + " ").repeat(20 + rnd.nextInt(600)).getBytes(StandardCharsets.UTF_8);
        int kind = i % 5;
        if (kind == 4) {
            m.setBody(raw);
            return;
        }
        String type = kind == 1 ? "LZ4" : kind == 2 ? "ZSTD" : "ZLIB";
        int flag = Compat.compress(m, raw, type);
        m.setSysFlag(COMPRESSED | (kind == 0 ? 0 : flag)); // kind 0: as clients before 4.9.4 do
    }

    private void schedule(Inner m, int i) {
        if (i % 4 == 3) {
            return;
        }
        int level = i % 4 == 2 ? 99 : 3 + i % 16;
        prop(m, "DELAY", String.valueOf(level));
        if (!gen4) { // 4.x: the store does this itself; 5.x: a hook of the broker
            int max = 18;
            prop(m, "REAL_TOPIC", m.getTopic());
            prop(m, "REAL_QID", String.valueOf(m.getQueueId()));
            m.setTopic("SCHEDULE_TOPIC_XXXX");
            m.setQueueId(Math.min(level, max) - 1);
        }
    }

    private void transactions() {
        for (int i = 0; i < count; i++) {
            Inner m = plain(i);
            String topic = m.getTopic();
            int queue = m.getQueueId();
            switch (rnd.nextInt(6)) {
                case 0: // as very old brokers wrote them
                    m.setSysFlag(PREPARED);
                    put(m);
                    continue;
                case 1:
                    m.setSysFlag(ROLLBACK);
                    m.setBody(new byte[0]);
                    m.setPreparedTransactionOffset(4711);
                    put(m);
                    continue;
                case 2:
                    put(m);
                    continue;
                default:
            }
            prop(m, "TRAN_MSG", "true");
            prop(m, "PGROUP", "pg");
            prop(m, "__transactionId__", uniq());
            prop(m, "REAL_TOPIC", topic);
            prop(m, "REAL_QID", String.valueOf(queue));
            m.setTopic("RMQ_SYS_TRANS_HALF_TOPIC");
            m.setQueueId(0);
            PutMessageResult half = put(m);
            if (i % 5 == 4) {
                continue; // undecided
            }
            long halfPhy = half.getAppendMessageResult().getWroteOffset();
            long halfQueue = half.getAppendMessageResult().getLogicsOffset();
            if (i % 3 != 0) {
                Inner c = message(topic, queue, m.getBody());
                m.getProperties().forEach((k, v) -> {
                    if (!k.startsWith("REAL_")) {
                        prop(c, k, v);
                    }
                });
                c.setSysFlag(COMMIT);
                c.setPreparedTransactionOffset(halfPhy);
                put(c);
            }
            Inner op = message("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, (gen4 ? "" + halfQueue : halfQueue + ",").getBytes(StandardCharsets.UTF_8));
            prop(op, "TAGS", "d");
            put(op);
        }
    }

    private void batches() throws Exception {
        for (int i = 0; i < count; ) {
            if (rnd.nextInt(4) == 0) {
                put(plain(i++));
                continue;
            }
            int n = 1 + rnd.nextInt(12);
            Inner first = plain(i);
            List<Message> list = new ArrayList<>();
            for (int j = 0; j < n; j++, i++) {
                Inner p = plain(i);
                Message m = new Message(first.getTopic(), p.getBody());
                m.setFlag(p.getFlag());
                p.getProperties().forEach((k, v) -> {
                    if (!k.equals("CLUSTER")) {
                        MessageAccessor.putProperty(m, k, v);
                    }
                });
                list.add(m);
            }
            MessageExtBatch b = new MessageExtBatch();
            b.setTopic(first.getTopic());
            b.setQueueId(first.getQueueId());
            b.setBody(MessageDecoder.encodeMessages(list));
            b.setBornTimestamp(first.getBornTimestamp());
            b.setBornHost(first.getBornHost());
            b.setStoreHost(first.getStoreHost());
            b.setReconsumeTimes(0);
            MessageAccessor.putProperty(b, "CLUSTER", "DefaultCluster");
            Ref.call(b, "setPropertiesString", MessageDecoder.messageProperties2String(b.getProperties()));
            note(box.store.putMessages(b), first.getTopic(), n);
        }
    }

    private void innerBatches() throws Exception {
        for (int i = 0; i < count; ) {
            Inner m = plain(i);
            if (rnd.nextInt(3) == 0) {
                m.setTopic("BatchTopic");
                m.setQueueId(rnd.nextInt(2));
                i++;
                put(m);
                continue;
            }
            if (rnd.nextInt(4) == 0) {
                i++;
                put(m);
                continue;
            }
            int n = 1 + rnd.nextInt(9);
            List<Message> list = new ArrayList<>();
            for (int j = 0; j < n; j++, i++) {
                Message one = new Message("BatchTopic", body(rnd.nextInt(300)));
                MessageAccessor.putProperty(one, "UNIQ_KEY", uniq());
                list.add(one);
            }
            m.setTopic("BatchTopic");
            m.setQueueId(rnd.nextInt(2));
            m.setBody(MessageDecoder.encodeMessages(list));
            m.setSysFlag(INNER_BATCH);
            prop(m, "INNER_NUM", String.valueOf(n));
            put(m);
        }
    }

    // ---------------------------------------------------------------- building blocks

    private byte[] body(int size) {
        byte[] b = new byte[size];
        rnd.nextBytes(b);
        for (int i = 0; i < size; i++) {
            b[i] = (byte) (' ' + (b[i] & 63)); // text-like
        }
        return b;
    }

    private String uniq() {
        return String.format("%016X%016X", rnd.nextLong(), rnd.nextLong());
    }

    private Inner message(String topic, int queue, byte[] body) {
        Inner m = new Inner();
        m.setTopic(topic);
        m.setQueueId(queue);
        m.setBody(body);
        m.setBornTimestamp(1700000000000L + serial * 37L);
        hosts(m, false, false);
        serial++;
        return m;
    }

    private void hosts(Inner m, boolean bornV6, boolean storeV6) {
        try {
            byte[] v6 = {0x20, 0x01, 0x0d, (byte) 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, (byte) 0xde, (byte) 0xad, 0, 7};
            m.setBornHost(new InetSocketAddress(InetAddress.getByAddress(bornV6 ? v6 : new byte[] {10, 1, 2, 3}), 40000 + serial % 1000));
            m.setStoreHost(new InetSocketAddress(InetAddress.getByAddress(storeV6 ? v6 : new byte[] {10, 9, 8, 7}), 10911));
            Compat.markV6(m, bornV6, storeV6);
        } catch (java.net.UnknownHostException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void prop(Inner m, String k, String v) {
        MessageAccessor.putProperty(m, k, v);
    }

    private PutMessageResult put(Inner m) {
        m.setPropertiesString(MessageDecoder.messageProperties2String(m.getProperties()));
        PutMessageResult r = box.store.putMessage(m);
        note(r, m.getTopic(), 1);
        return r;
    }

    private void note(PutMessageResult r, String topic, int n) {
        if (r.getAppendMessageResult() == null || !r.getAppendMessageResult().isOk()) {
            refused.add(Json.map("topic", topic, "status", String.valueOf(r.getPutMessageStatus()), "append", String.valueOf(r.getAppendMessageResult())));
        } else {
            puts.add(new long[] {r.getAppendMessageResult().getWroteOffset(), r.getAppendMessageResult().getWroteBytes(), n});
        }
        long every = job.num("pauseEvery", 0);
        if (every > 0 && (puts.size() + refused.size()) % every == 0) {
            try {
                Thread.sleep(job.num("pauseMillis", 1));
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    // ---------------------------------------------------------------- ground truth, expiry

    private long truth(Path file) throws Exception {
        long lines = 0;
        if (box.cfg.isTransientStorePoolEnable()) {
            Thread.sleep(1500); // readable only after the commit thread has run
        }
        try (PrintStream o = new PrintStream(file.toFile(), StandardCharsets.UTF_8)) {
            for (long[] p : puts) {
                for (long at = p[0], end = p[0] + p[1]; at < end; lines++) {
                    Map<String, Object> m = describe(at);
                    o.println(Json.write(m));
                    if (!m.containsKey("size")) {
                        break;
                    }
                    at += ((Number) m.get("size")).longValue();
                }
            }
        }
        return lines;
    }

    private Map<String, Object> describe(long at) {
        MessageExt m = box.store.lookMessageByOffset(at);
        return m == null ? Json.map("physicalOffset", at, "unreadable", true) : describe(m);
    }

    static Map<String, Object> describe(MessageExt m) {
        CRC32 crc = new CRC32();
        byte[] body = m.getBody() == null ? new byte[0] : m.getBody();
        crc.update(body);
        Map<String, String> properties = m.getProperties() == null ? Map.of() : m.getProperties(); // null: the record has none
        return Json.map("topic", m.getTopic(), "queueId", m.getQueueId(), "queueOffset", m.getQueueOffset(),
            "physicalOffset", m.getCommitLogOffset(), "size", m.getStoreSize(),
            "offsetMsgId", MessageDecoder.createMessageId(m.getStoreHost(), m.getCommitLogOffset()),
            "uniqKey", properties.get("UNIQ_KEY"), "keys", properties.get("KEYS"), "tags", properties.get("TAGS"),
            "flag", m.getFlag(), "sysFlag", m.getSysFlag(), "bornTimestamp", m.getBornTimestamp(), "storeTimestamp", m.getStoreTimestamp(),
            "reconsumeTimes", m.getReconsumeTimes(), "preparedTransactionOffset", m.getPreparedTransactionOffset(),
            "bodyLength", body.length, "bodyCrc", (int) (crc.getValue() & 0x7fffffff), "storedCrc", m.getBodyCRC(),
            "properties", new java.util.TreeMap<>(properties));
    }

    private boolean headless() {
        return job.text("scenario", "").equals("headless") || job.num("expireFiles", 0) > 0;
    }

    /** Deletes the first commit-log files and then queue and index files with the broker's own cleaners. */
    private void expire(Map<String, Object> out) throws Exception {
        Object log = box.store.getCommitLog();
        int limit = (int) job.num("expireFiles", 4);
        java.lang.reflect.Method m = Ref.method(log.getClass(), "deleteExpiredFile", 5);
        int n = 0;
        if (m != null) {
            n = (Integer) m.invoke(log, 0L, 0, 0L, true, limit);
        } else { // 4.9.8: at most 10 at a time, constant
            n = (Integer) Ref.call(log, "deleteExpiredFile", 0L, 0, 0L, true);
        }
        Ref.call(Ref.get(box.store, "cleanConsumeQueueService"), "run");
        out.put("expiredFiles", n);
        out.put("stateAfterExpiry", box.snapshot());
    }

}
