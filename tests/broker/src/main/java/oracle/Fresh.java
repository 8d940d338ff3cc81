package oracle;

import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.PutMessageResult;

/**
 * New messages in a store that has been opened: one for each of some queues that are there, spread over all of them,
 * and one of a new topic. Each is read back by queue, by key and by id. One line per message.
 */
final class Fresh {
    private static final String NEW_TOPIC = "FreshTopic";
    private static final Set<String> OF_THE_BROKER =
        Set.of("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC");

    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);

    private Fresh() {
    }

    private record Queue(String topic, int id) {
    }

    static void put(StoreBox box, Job job, int count, Consumer<Map<String, Object>> lines) throws Exception {
        List<Queue> queues = new ArrayList<>();
        box.consumeQueues().forEach((topic, byId) -> {
            if (!job.map("topics").containsKey(topic) && !topic.startsWith("%LMQ%") && !OF_THE_BROKER.contains(topic)) {
                byId.keySet().forEach(id -> queues.add(new Queue(topic, id)));
            }
        });
        List<Map<String, Object>> stored = new ArrayList<>();
        int of = Math.min(count, queues.size());
        for (int i = 0; i < of; i++) {
            stored.add(store(box, queues.get(i * queues.size() / of), i));
        }
        stored.add(store(box, new Queue(NEW_TOPIC, 0), of));
        // With a pool of transient buffers a message is part of the log only once it is committed, which takes a fifth of a second.
        long limit = System.currentTimeMillis() + job.num("settleMillis", 20000);
        long last = stored.stream().mapToLong(line -> (long) line.getOrDefault("physicalOffset", -1L)).max().orElse(-1);
        while (box.store.getMaxPhyOffset() <= last && System.currentTimeMillis() < limit) {
            Thread.sleep(20);
        }
        box.settle(job.num("settleMillis", 20000));
        for (Map<String, Object> line : stored) {
            readBack(box, line);
            lines.accept(line);
        }
    }

    private static Map<String, Object> store(StoreBox box, Queue queue, int number) throws Exception {
        Inner m = new Inner();
        m.setTopic(queue.topic);
        m.setQueueId(queue.id);
        m.setBody(("new message " + number).getBytes(StandardCharsets.UTF_8));
        m.setBornTimestamp(System.currentTimeMillis());
        m.setBornHost(HOST);
        m.setStoreHost(HOST);
        String key = "fresh-" + System.nanoTime() + "-" + number;
        MessageAccessor.putProperty(m, "KEYS", key);
        m.setPropertiesString(MessageDecoder.messageProperties2String(m.getProperties()));
        long end = box.store.getMaxOffsetInQueue(queue.topic, queue.id);
        PutMessageResult r = box.store.putMessage(m);
        Map<String, Object> line = Json.map("kind", "new", "topic", queue.topic, "queue", queue.id, "key", key, "end", end,
            "status", r.getPutMessageStatus());
        if (r.isOk()) {
            line.put("queueOffset", r.getAppendMessageResult().getLogicsOffset());
            line.put("physicalOffset", r.getAppendMessageResult().getWroteOffset());
        }
        return line;
    }

    private static void readBack(StoreBox box, Map<String, Object> line) {
        if (!line.containsKey("physicalOffset")) {
            return;
        }
        String topic = (String) line.get("topic");
        GetMessageResult r = box.store.getMessage("oracle", topic, (int) line.get("queue"), (long) line.get("queueOffset"), 1, null);
        List<Object> found = new ArrayList<>();
        r.getMessageBufferList().forEach(b -> found.add(MessageDecoder.decode(b.duplicate(), true, false).getCommitLogOffset()));
        r.release();
        line.put("byQueue", found);
        line.put("byKey", Read.hits(box, topic, (String) line.get("key"), 64));
        MessageExt m = box.store.lookMessageByOffset((long) line.get("physicalOffset"));
        line.put("byId", m == null ? null : m.getKeys());
    }
}
