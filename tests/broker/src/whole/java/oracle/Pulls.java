package oracle;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;

import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * What a running broker serves: queues from their minimum to their maximum, messages by key, messages by offset message
 * id. One line per message with its place in the queue, per key and per id.
 */
final class Pulls {
    private static final int AT_ONCE = 32;
    private static final int MOST_HITS = 64;
    private static final int FLAG_SUBSCRIPTION = 4;
    private static final int PATIENCE = 20;
    private static final long PAUSE_MILLIS = 250;

    private final Wire broker;
    private final Consumer<Map<String, Object>> lines;
    private final boolean compacted;

    /** `compacted`: compacted topics are pulled, too, from their compaction log. */
    Pulls(Wire broker, boolean compacted, Consumer<Map<String, Object>> lines) {
        this.broker = broker;
        this.compacted = compacted;
        this.lines = lines;
    }

    /** What keeps clients from pulling messages as they were stored, null if nothing does. */
    static String hidden(String topic, Map<String, Object> attributes) {
        if (isOfBroker(topic)) {
            return "a topic of the broker";
        }
        return isCompacted(attributes) ? "pulled from the compaction log" : null;
    }

    /** Up to 4.6 clients pull such topics like others, and there is no class that knows them. */
    private static boolean isOfBroker(String topic) {
        try {
            Class<?> validator = Class.forName("org.apache.rocketmq.common.topic.TopicValidator");
            return (boolean) validator.getMethod("isSystemTopic", String.class).invoke(null, topic);
        } catch (ClassNotFoundException e) {
            return false;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static boolean isCompacted(Map<String, Object> attributes) {
        return String.valueOf(attributes).contains("COMPACTION");
    }

    void queues(List<?> names) throws Exception {
        Map<String, Set<Integer>> ids = new TreeMap<>();
        for (Object name : names) {
            int slash = name.toString().lastIndexOf('/');
            ids.computeIfAbsent(name.toString().substring(0, slash), t -> new TreeSet<>()).add(Integer.valueOf(name.toString().substring(slash + 1)));
        }
        Map<String, Map<String, Object>> topics = broker.topics();
        for (Map.Entry<String, Set<Integer>> of : ids.entrySet()) {
            String topic = of.getKey();
            String reason = hidden(topic, topics.get(topic));
            if (reason != null && !(compacted && isCompacted(topics.get(topic)))) {
                lines.accept(Json.map("kind", "hidden", "topic", topic, "reason", reason));
                continue;
            }
            if (!topics.containsKey(topic) && !topic.startsWith("%LMQ%")) {
                makeKnown(topic, ((TreeSet<Integer>) of.getValue()).last() + 1, "");
            }
            for (int id : of.getValue()) {
                queue(topic, id);
            }
        }
    }

    /** A store that never had a whole broker has queues and no configuration. */
    void makeKnown(String topic, int queues, String attributes) throws Exception {
        broker.demand(Wire.UPDATE_TOPIC, "topic", topic, "defaultTopic", "TBW102", "readQueueNums", queues, "writeQueueNums", queues,
            "perm", 6, "topicFilterType", "SINGLE_TAG", "topicSysFlag", 0, "order", false,
            "attributes", attributes);
    }

    private void queue(String topic, int id) throws Exception {
        long at = broker.offset(Wire.MIN_OFFSET, topic, id);
        long end = broker.offset(Wire.MAX_OFFSET, topic, id);
        lines.accept(Json.map("kind", "queue", "queueTopic", topic, "queue", id, "min", at, "max", end));
        int wanted = AT_ONCE;
        for (int tries = 0; at < end; ) {
            RemotingCommand answer = broker.ask(Wire.PULL, "consumerGroup", "TOOLS_CONSUMER", "topic", topic, "queueId", id, "queueOffset", at,
                "maxMsgNums", wanted, "sysFlag", FLAG_SUBSCRIPTION, "commitOffset", 0, "suspendTimeoutMillis", 0, "subscription", "*",
                "subVersion", 0, "expressionType", "TAG");
            String told = answer.getExtFields() == null ? null : answer.getExtFields().get("nextBeginOffset");
            long next = told == null ? at : Long.parseLong(told);
            List<MessageExt> found = Wire.messages(answer);
            if (next <= at) {
                if (++tries == PATIENCE) {
                    lines.accept(Json.map("kind", "refused", "queueTopic", topic, "queue", id, "at", at, "end", end, "why", Wire.remark(answer)));
                    return;
                }
                Thread.sleep(PAUSE_MILLIS);
            } else if (next - at != found.stream().mapToLong(Pulls::places).sum() && wanted > 1) {
                wanted = 1; // something is left out: where each one lies can only be told one by one
            } else {
                for (MessageExt m : found) {
                    line(topic, id, at, m);
                    at += places(m);
                }
                at = next;
                wanted = AT_ONCE;
                tries = 0;
            }
        }
    }

    /** Queue offsets that a message takes: an inner batch takes one for each message in it. */
    private static long places(MessageExt m) {
        String inner = m.getProperty("INNER_NUM");
        return inner == null ? 1 : Long.parseLong(inner);
    }

    private void line(String topic, int id, long at, MessageExt m) {
        Map<String, Object> line = Json.map("kind", "message", "queueTopic", topic, "queue", id, "at", at);
        line.putAll(Write.describe(m));
        lines.accept(line);
    }

    /** Each as topic:key. */
    void keys(List<?> keys) throws Exception {
        for (Object key : keys) {
            String[] of = key.toString().split(":", 2);
            RemotingCommand answer = broker.ask(Wire.QUERY_BY_KEY, "topic", of[0], "key", of[1], "maxNum", MOST_HITS,
                "beginTimestamp", 0, "endTimestamp", Long.MAX_VALUE);
            lines.accept(Json.map("kind", "key", "topic", of[0], "key", of[1], "physicalOffsets",
                Wire.messages(answer).stream().map(MessageExt::getCommitLogOffset).toList()));
        }
    }

    /** Each as topic:id. The host in an id is the one that stored the message, so that this broker has to be asked. */
    void ids(List<?> ids) throws Exception {
        for (Object id : ids) {
            String[] of = id.toString().split(":", 2);
            RemotingCommand answer = broker.ask(Wire.VIEW_BY_ID, "topic", of[0], "offset", MessageDecoder.decodeMessageId(of[1]).getOffset());
            List<MessageExt> found = Wire.messages(answer);
            lines.accept(Json.map("kind", "id", "id", of[1], "physicalOffset", found.isEmpty() ? null : found.get(0).getCommitLogOffset()));
        }
    }
}
