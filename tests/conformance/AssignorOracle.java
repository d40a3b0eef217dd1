import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.TopicPartition;

/**
 * What Kafka's own assignors answer. A case is one line of five fields between semicolons for each member, behind the
 * assignor and the topics: name topic=count,.. member;topic,..;userdata;topic:partition,..;generation[;instance] ..
 * (fields are apart by spaces, "-" is none). The answer is one line of member=topic:partition,.. in the given order.
 */
public class AssignorOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            Map<String, Integer> counts = new TreeMap<>();
            for (String topic : listed(words[1]))
                counts.put(topic.split("=")[0], Integer.parseInt(topic.split("=")[1]));
            Map<String, Subscription> members = new TreeMap<>();
            for (int i = 2; i < words.length; i++) {
                String[] fields = words[i].split(";");
                ByteBuffer data = fields[2].equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(fields[2]));
                List<TopicPartition> owned = new ArrayList<>();
                for (String each : listed(fields[3]))
                    owned.add(new TopicPartition(each.split(":")[0], Integer.parseInt(each.split(":")[1])));
                Subscription subscription = new Subscription(
                    listed(fields[1]), data, owned, Integer.parseInt(fields[4]), Optional.empty());
                if (fields.length > 5)
                    subscription.setGroupInstanceId(Optional.of(fields[5]));
                members.put(fields[0], subscription);
            }
            Map<String, List<TopicPartition>> given = named(words[0]).assign(counts, members);
            System.out.println(new TreeMap<>(given).entrySet().stream()
                .map(entry -> entry.getKey() + "=" + entry.getValue().stream()
                    .map(each -> each.topic() + ":" + each.partition()).collect(Collectors.joining(",")))
                .collect(Collectors.joining(" ")));
        }
    }

    private static List<String> listed(String field) {
        return field.equals("-") ? List.of() : List.of(field.split(","));
    }

    private static AbstractPartitionAssignor named(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }
}
