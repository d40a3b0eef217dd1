import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client by every file of properties in a folder: two records written and read in a group; by those whose name
 *  begins with "wrong-", whether it is refused. Prints facts by file, in JSON. A property "topic" says where. */
public class Logins {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> facts = new TreeMap<>();
        try (var files = Files.newDirectoryStream(Path.of(arguments[0]), "*.properties")) {
            for (Path file : files) {
                Properties client = new Properties();
                try (FileReader reader = new FileReader(file.toFile())) {
                    client.load(reader);
                }
                String name = file.getFileName().toString().replace(".properties", "");
                String topic = (String) client.remove("topic");
                facts.put(name, name.startsWith("wrong-") ? refused(client) : goAndCome(client, topic));
            }
        }
        System.out.println(new ObjectMapper().writeValueAsString(facts));
        System.exit(0);
    }

    private static List<String> goAndCome(Properties client, String topic) throws Exception {
        try (var producer = new KafkaProducer<>(client, new StringSerializer(), new StringSerializer())) {
            for (int partition = 0; partition < 2; partition++) {
                producer.send(new ProducerRecord<>(topic, partition, null, "to " + partition)).get();
            }
        }
        Properties reading = new Properties();
        reading.putAll(client);
        reading.put("group.id", topic);
        reading.put("auto.offset.reset", "earliest");
        List<String> values = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (values.size() < 2 && System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    values.add(record.value());
                }
            }
        }
        Collections.sort(values);
        return values;
    }

    private static boolean refused(Properties client) throws Exception {
        try (Admin admin = Admin.create(client)) {
            admin.describeCluster().clusterId().get();
            return false;
        } catch (ExecutionException error) {
            return error.getCause() instanceof AuthenticationException;
        } catch (KafkaException error) { // a login that gets no token
            return true;
        }
    }
}
