import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.WindowStore;

/** Kafka Streams with exactly_once_v2: two instances with standby tasks, until the standard input ends.
 *
 *  A click has a user for its key, and "NUMBER WORD" for its value. They are counted by word, which takes a repartition
 *  topic; joined with the user's place, and with that place's name out of a global table; and counted by user in windows
 *  of ten seconds, each of which is told once. */
public class Clicks {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], name = arguments[1], state = arguments[2];
        KafkaStreams[] instances = {
            new KafkaStreams(topology(name), settings(bootstrap, name, state + "/0")),
            new KafkaStreams(topology(name), settings(bootstrap, name, state + "/1"))};
        for (KafkaStreams each : instances) {
            each.start();
        }
        while (System.in.read() >= 0) {
        }
        for (KafkaStreams each : instances) {
            if (!each.close(Duration.ofSeconds(30))) {
                System.exit(1);
            }
        }
        System.exit(0);
    }

    static Topology topology(String name) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> clicks = builder.stream(name + "-clicks");
        KTable<String, String> users = builder.table(name + "-users");
        GlobalKTable<String, String> places = builder.globalTable(name + "-places");
        clicks.map((user, click) -> KeyValue.pair(word(click), click)).groupByKey(Grouped.as("words"))
            .count(Materialized.as("counts")).toStream()
            .to(name + "-counts", Produced.valueSerde(Serdes.serdeFrom(
                (topic, count) -> count.toString().getBytes(), (topic, count) -> Long.valueOf(new String(count)))));
        clicks.join(users, (click, place) -> click + " " + place)
            .join(places, (user, click) -> click.split(" ")[2], (click, place) -> click + " " + place)
            .to(name + "-joined");
        clicks.groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofMinutes(10)))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream()
            .map((user, count) -> KeyValue.pair(user.key() + " " + user.window().start(), count.toString()))
            .to(name + "-windows");
        return builder.build();
    }

    static String word(String click) {
        return click.split(" ")[1];
    }

    static Properties settings(String bootstrap, String name, String state) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
            StreamsConfig.APPLICATION_ID_CONFIG, name,
            StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2,
            StreamsConfig.STATE_DIR_CONFIG, state,
            StreamsConfig.REPLICATION_FACTOR_CONFIG, 3,
            StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1,
            StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0,
            StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 1000,
            StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class,
            StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class));
        settings.put(StreamsConfig.topicPrefix("min.insync.replicas"), "2");
        settings.put(StreamsConfig.producerPrefix("delivery.timeout.ms"), "600000");
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        settings.put(StreamsConfig.mainConsumerPrefix("session.timeout.ms"), "6000");
        return settings;
    }
}
