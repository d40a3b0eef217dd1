import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Kafka Streams' word count with exactly_once_v2, stopped halfway and begun again. Prints the last count of each word,
 *  as JSON, and how many updates a reader of committed records saw. */
public class WordCount {
    static final int LINES = 400;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], name = arguments[1], state = arguments[2];
        String lines = name + "-lines", counts = name + "-counts";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(Arrays.asList(new NewTopic(lines, 2, (short) 3), new NewTopic(counts, 2, (short) 3))).all().get();
            for (int half = 0; half < 2; half++) {
                produce(bootstrap, lines, half * LINES / 2, (half + 1) * LINES / 2);
                count(bootstrap, name, state, lines, counts, (half + 1) * LINES / 2);
            }
            String topics = admin.listTopics().names().get().stream().filter(each -> each.startsWith(name)).sorted()
                .map(each -> '"' + each.substring(name.length()) + '"').collect(Collectors.joining(", "));
            Map<String, Long> last = new TreeMap<>();
            int updates = read(bootstrap, name, counts, last);
            String told = last.entrySet().stream().map(each -> '"' + each.getKey() + "\": " + each.getValue())
                .collect(Collectors.joining(", "));
            System.out.println("{\"topics\": [" + topics + "], \"updates\": " + updates + ", \"counts\": {" + told + "}}");
        }
        System.exit(0);
    }

    static void produce(String bootstrap, String topic, int from, int to) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int number = from; number < to; number++) {
                producer.send(new ProducerRecord<>(topic, number % 2, null, "word" + number % 7 + " all"));
            }
        }
    }

    /** Runs until the store has counted every line. */
    static void count(String bootstrap, String name, String state, String lines, String counts, int expected)
            throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        Map<String, Long> wanted = new ConcurrentHashMap<>(Map.of("all", (long) expected));
        for (int number = 0; number < expected; number++) {
            wanted.merge("word" + number % 7, 1L, Long::sum);
        }
        Map<String, Long> last = new ConcurrentHashMap<>();
        CountDownLatch done = new CountDownLatch(1);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> words = builder.<String, String>stream(lines).flatMapValues(line -> Arrays.asList(line.split(" ")));
        words.groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts")).toStream()
            .peek((word, count) -> {
                last.merge(word, count, Math::max);
                if (last.equals(wanted)) {
                    done.countDown();
                }
            })
            .to(counts, Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        if (!done.await(120, java.util.concurrent.TimeUnit.SECONDS)) {
            System.err.println("the words were not counted in time; " + streams.state());
            System.exit(1);
        }
        streams.close(Duration.ofSeconds(60));
    }

    static int read(String bootstrap, String name, String topic, Map<String, Long> last) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "group.id", name + "-reader", "auto.offset.reset", "earliest",
            "isolation.level", "read_committed"));
        int updates = 0;
        try (KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
            consumer.subscribe(Arrays.asList(topic));
            long deadline = System.currentTimeMillis() + 60_000;
            while (updates < 2 * LINES && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, Long> each : consumer.poll(Duration.ofMillis(500))) {
                    last.put(each.key(), each.value());
                    updates++;
                }
            }
        }
        return updates;
    }
}
