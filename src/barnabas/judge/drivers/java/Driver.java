// The Java client as a driver of `barnabas judge`: lines in, lines out, as barnabas.judge.drivers describes them.
//
// Nothing is said to have failed: a record or an end that the client gives up may have been written by then, or may be
// written later.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public final class Driver {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private static void say(String client, String what) {
        synchronized (OUT) {
            OUT.print(client + " " + what + "\n");
            OUT.flush();
        }
    }

    /** What secures connections: the file that the program was named. */
    private static final Properties SECURITY = new Properties();

    private static Properties secured() {
        Properties config = new Properties();
        config.putAll(SECURITY);
        return config;
    }

    private static String name(Throwable error) {
        return error.getClass().getSimpleName();
    }

    /** One client: a thread that does what it is told, in that order. */
    private abstract static class Worker implements Runnable {
        final String client;
        final LinkedBlockingQueue<String[]> told;

        Worker(String client, LinkedBlockingQueue<String[]> told) {
            this.client = client;
            this.told = told;
        }

        @Override
        public void run() {
            try {
                for (String[] words = told.take(); ; words = told.take()) {
                    if (words[1].equals("close")) {
                        close();
                        say(client, "done ok");
                        return;
                    }
                    perform(words);
                }
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }

        abstract void perform(String[] words);

        abstract void close();
    }

    private static class Writer extends Worker {
        final KafkaProducer<String, String> producer;

        /** words: client producer BOOTSTRAP ACKS, or client transactor|copier BOOTSTRAP ID TIMEOUT_MS .. */
        Writer(String[] words) {
            super(words[0], new LinkedBlockingQueue<>());
            Properties config = secured();
            config.put("bootstrap.servers", words[2]);
            config.put("client.id", words[0]);
            config.put("request.timeout.ms", "5000");
            config.put("max.block.ms", "15000");
            if (!words[1].equals("producer")) {
                config.put("transactional.id", words[3]);
                config.put("transaction.timeout.ms", words[4]);
                config.put("delivery.timeout.ms", "15000");
            } else {
                config.put("acks", words[3]);
                config.put("enable.idempotence", String.valueOf(words[3].equals("all")));
                // Where a record under way runs out of time, the client takes another epoch and sends those behind it
                // again, of which the broker may have written some: that would be no fault of the broker's.
                config.put("delivery.timeout.ms", String.valueOf(Integer.MAX_VALUE));
            }
            producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        }

        @Override
        void perform(String[] words) {
            switch (words[1]) {
                case "send" -> send(words[2], Integer.parseInt(words[3]), words[4], words[5]);
                case "init" -> end(producer::initTransactions);
                case "begin" -> end(producer::beginTransaction);
                case "flush" -> end(producer::flush);
                case "commit" -> end(producer::commitTransaction);
                case "abort" -> end(producer::abortTransaction);
                default -> throw new IllegalArgumentException(words[1]);
            }
        }

        private void send(String topic, int partition, String key, String value) {
            var record = new ProducerRecord<>(topic, partition, key.equals("-") ? null : key, value);
            try {
                producer.send(record, (metadata, error) -> say(client, "sent " + value + " "
                    + (error != null ? "unknown " + name(error) : "ok " + metadata.offset())));
            } catch (KafkaException | IllegalStateException error) {
                say(client, "sent " + value + " unknown " + name(error));
            }
        }

        /** An end that ran out of time is to be asked for again; most errors want an abort; after others all is over. */
        final void end(Runnable call) {
            try {
                call.run();
                say(client, "done ok");
            } catch (TimeoutException | InterruptException error) {
                say(client, "done unknown again " + name(error));
            } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException
                | UnsupportedVersionException | IllegalStateException error) {
                say(client, "done unknown over " + name(error));
            } catch (KafkaException error) {
                say(client, "done unknown abort " + name(error));
            }
        }

        @Override
        void close() {
            producer.close(Duration.ofSeconds(20));
        }
    }

    private static final class Reader extends Worker implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;

        /** Where the last poll began in each partition, and what it has come to. */
        private final Map<TopicPartition, Long> begins = new HashMap<>();
        private final Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();

        /** The last that is known of each position: its leader epoch is committed with it. Without that (KIP-320) who
            goes on there believes a leader that was paused, whose log ends before it, and begins at the beginning. */
        private final Map<TopicPartition, OffsetAndMetadata> known = new HashMap<>();

        /** words: client consumer BOOTSTRAP GROUP TOPIC ISOLATION */
        Reader(String[] words, LinkedBlockingQueue<String[]> told) {
            super(words[0], told);
            Properties config = secured();
            config.put("bootstrap.servers", words[2]);
            config.put("client.id", words[0]);
            config.put("group.id", words[3]);
            config.put("isolation.level", words[5]);
            config.put("auto.offset.reset", "earliest");
            config.put("enable.auto.commit", "false");
            config.put("session.timeout.ms", "10000");
            config.put("max.poll.interval.ms", "20000");
            config.put("default.api.timeout.ms", "10000");
            config.put("request.timeout.ms", "5000");
            consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(words[4]), this);
        }

        /** Asks where the group is, and goes there: so the history knows where the assignment begins. */
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            Set<TopicPartition> wanted = new HashSet<>(partitions);
            Map<TopicPartition, OffsetAndMetadata> found = null;
            allowed();
            try {
                found = wanted.isEmpty() ? Map.of() : consumer.committed(wanted, Duration.ofSeconds(10));
            } catch (KafkaException error) {
                // Nobody knows where it begins; the client asks for itself.
            }
            for (TopicPartition at : wanted) {
                OffsetAndMetadata committed = found == null ? null : found.get(at);
                String offset = found == null ? "?" : committed == null ? "-1" : String.valueOf(committed.offset());
                say(client, "assigned " + at.topic() + " " + at.partition() + " " + offset);
                known.remove(at);
                if (committed != null) {
                    known.put(at, committed);
                    consumer.seek(at, committed);
                }
            }
        }

        /** What is asked after this is asked after the time that was noted before the answer to it. */
        private void allowed() {
            say(client, "assigning");
            try {
                String[] words = told.take();
                if (!words[1].equals("go")) {
                    throw new IllegalStateException(words[1]);
                }
            } catch (InterruptedException error) {
                throw new InterruptException(error);
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

        @Override
        void perform(String[] words) {
            try {
                switch (words[1]) {
                    case "poll" -> poll(Long.parseLong(words[2]));
                    case "commit-offsets" -> commit();
                    default -> throw new IllegalArgumentException(words[1]);
                }
                say(client, "done ok");
            } catch (KafkaException | IllegalStateException error) {
                say(client, "done unknown over " + name(error));
            }
        }

        private void poll(long patienceMs) {
            begins.clear();
            ends.clear();
            for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(patienceMs))) {
                TopicPartition at = new TopicPartition(each.topic(), each.partition());
                begins.putIfAbsent(at, each.offset());
                ends.put(at, new OffsetAndMetadata(each.offset() + 1, each.leaderEpoch(), ""));
                String key = each.key() == null ? "-" : each.key();
                say(client, "read " + each.topic() + " " + each.partition() + " " + each.offset() + " " + key + " "
                    + each.value());
            }
            known.putAll(ends);
        }

        private void commit() {
            Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
            for (TopicPartition at : consumer.assignment()) {
                try {
                    long position = consumer.position(at, Duration.ofMillis(100));
                    OffsetAndMetadata last = known.get(at);
                    boolean behind = last != null && last.offset() <= position;
                    Optional<Integer> epoch = behind ? last.leaderEpoch() : Optional.empty();
                    positions.put(at, new OffsetAndMetadata(position, epoch, ""));
                } catch (TimeoutException error) {
                    // It has not begun there yet: there is nothing to commit.
                }
            }
            if (positions.isEmpty()) {
                return;
            }
            String outcome = "ok";
            try {
                consumer.commitSync(positions, Duration.ofSeconds(10));
            } catch (KafkaException error) {
                outcome = "unknown " + name(error);
            }
            for (var each : positions.entrySet()) {
                say(client, "committed " + each.getKey().topic() + " " + each.getKey().partition() + " "
                    + each.getValue().offset() + " " + outcome);
            }
        }

        @Override
        @SuppressWarnings("deprecation")
        void close() {
            try {
                consumer.close(Duration.ofSeconds(10));
            } catch (KafkaException error) {
                // It may not have left its group: the coordinator sees that when the session is over.
            }
        }
    }

    /** Reads transactions and writes transactions, with its group's offsets in them. */
    private static final class Copier extends Writer {
        private final Reader reader;

        /** words: client copier BOOTSTRAP ID TIMEOUT_MS GROUP TOPIC */
        Copier(String[] words) {
            super(words);
            reader = new Reader(new String[] {words[0], "consumer", words[2], words[5], words[6], "read_committed"}, told);
        }

        @Override
        void perform(String[] words) {
            switch (words[1]) {
                case "poll" -> reader.perform(words);
                case "send-offsets" -> end(
                    () -> producer.sendOffsetsToTransaction(reader.ends, reader.consumer.groupMetadata()));
                case "rewind" -> rewind();
                default -> super.perform(words);
            }
        }

        private void rewind() {
            for (var each : reader.begins.entrySet()) {
                TopicPartition at = each.getKey();
                if (reader.consumer.assignment().contains(at)) {
                    reader.consumer.seek(at, each.getValue());
                    say(client, "rewound " + at.topic() + " " + at.partition() + " " + each.getValue());
                }
            }
            say(client, "done ok");
        }

        @Override
        void close() {
            reader.close();
            super.close();
        }
    }

    public static void main(String[] arguments) throws IOException {
        if (arguments.length > 0) {
            try (var file = Files.newBufferedReader(Path.of(arguments[0]), StandardCharsets.UTF_8)) {
                SECURITY.load(file);
            }
        }
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Worker> workers = new HashMap<>();
        say("ready", "java " + AppInfoParser.getVersion());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            Worker made = switch (words[1]) {
                case "producer", "transactor" -> new Writer(words);
                case "consumer" -> new Reader(words, new LinkedBlockingQueue<>());
                case "copier" -> new Copier(words);
                default -> null;
            };
            if (made == null) {
                workers.get(words[0]).told.add(words);
            } else {
                workers.put(words[0], made);
                Thread thread = new Thread(made, words[0]);
                thread.setDaemon(true);
                thread.start();
            }
        }
    }
}
