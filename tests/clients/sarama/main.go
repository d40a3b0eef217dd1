// What sarama makes of a cluster: topics, an idempotent producer, a group of two, transactions with offsets.
// Prints JSON facts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var (
	facts   = map[string]any{}
	brokers []string
	name    string
)

func must(err error) {
	if err != nil {
		told, _ := json.Marshal(facts)
		fmt.Fprintln(os.Stderr, err, string(told))
		os.Exit(1)
	}
}

func word(err error) string {
	var code sarama.KError
	var topic *sarama.TopicError
	var partition *sarama.TopicPartitionError
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &topic):
		return fmt.Sprint(int(topic.Err))
	case errors.As(err, &partition):
		return fmt.Sprint(int(partition.Err))
	case errors.As(err, &code):
		return fmt.Sprint(int(code))
	}
	return err.Error()
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.ClientID = name
	made.Version = sarama.V3_6_0_0
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Group.Session.Timeout = 10 * time.Second
	made.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	made.Consumer.IsolationLevel = sarama.ReadCommitted
	made.Producer.Return.Successes = true
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Idempotent = true
	made.Net.MaxOpenRequests = 1
	return made
}

func topics(admin sarama.ClusterAdmin, topic string) {
	hour, day := "3600000", "86400000"
	detail := &sarama.TopicDetail{
		NumPartitions: 3, ReplicationFactor: 3, ConfigEntries: map[string]*string{"retention.ms": &hour},
	}
	must(admin.CreateTopic(topic, detail, false))
	many := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 9}
	facts["refused"] = []string{
		word(admin.CreateTopic(topic, detail, false)), word(admin.CreateTopic("not a name", detail, false)),
		word(admin.CreateTopic(name+"-many", many, false)), word(admin.DeleteTopic(name + "-absent")),
		word(admin.CreatePartitions(topic, 2, nil, false)),
	}
	must(admin.CreatePartitions(topic, 4, nil, false))
	must(admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &day},
	}, false))
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	must(err)
	configs := map[string]string{}
	for _, each := range entries {
		configs[each.Name] = fmt.Sprint(each.Value, " ", each.Source, " ", each.ReadOnly, " ", len(each.Synonyms))
	}
	facts["configs"] = configs
	described, err := admin.DescribeTopics([]string{topic, name + "-absent"})
	must(err)
	seen := map[string]any{}
	for _, each := range described {
		seen[each.Name] = []int{int(each.Err), len(each.Partitions)}
	}
	facts["described"] = seen
}

func produced(topic string) {
	producer, err := sarama.NewSyncProducer(brokers, config())
	must(err)
	ends := map[string]int64{}
	for n := range 300 {
		partition, offset, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: topic, Key: sarama.StringEncoder(fmt.Sprint("k", n%17)), Value: sarama.StringEncoder(fmt.Sprint("v", n)),
			Headers: []sarama.RecordHeader{{Key: []byte("n"), Value: fmt.Append(nil, n)}},
		})
		must(err)
		ends[fmt.Sprint(partition)] = offset
	}
	must(producer.Close())
	facts["produced"] = ends
}

// A member of a group, which tells how many partitions it has and what it reads.
type member struct {
	topic string
	index int
	claim chan [2]int
	seen  chan string
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.claim <- [2]int{m.index, len(session.Claims()[m.topic])}
	return nil
}
func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			session.MarkMessage(message, "read")
			m.seen <- string(message.Value)
		case <-session.Context().Done():
			return nil
		}
	}
}

func group(admin sarama.ClusterAdmin, topic string, strategy sarama.BalanceStrategy, static bool) {
	how := fmt.Sprint(strategy.Name(), " ", static)
	id := strings.ReplaceAll(name+"-"+how, " ", "-")
	claims, seen := make(chan [2]int, 1000), make(chan string, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for index := range 2 {
		settings := config()
		settings.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
		if static {
			settings.Consumer.Group.InstanceId = fmt.Sprint("instance-", index)
		}
		joined, err := sarama.NewConsumerGroup(brokers, id, settings)
		must(err)
		running.Go(func() {
			for ctx.Err() == nil {
				if err := joined.Consume(ctx, []string{topic}, &member{topic, index, claims, seen}); err != nil {
					must(err)
				}
			}
			must(joined.Close())
		})
	}
	values, now := map[string]bool{}, [2]int{}
	deadline := time.After(60 * time.Second)
	for len(values) < 300 || now != [2]int{2, 2} {
		select {
		case value := <-seen:
			values[value] = true
		case claim := <-claims:
			now[claim[0]] = claim[1]
		case <-deadline:
			must(fmt.Errorf("%s: %d records, %v partitions", how, len(values), now))
		}
	}
	described, err := admin.DescribeConsumerGroups([]string{id})
	must(err)
	instances := 0
	for _, each := range described[0].Members {
		if each.GroupInstanceId != nil {
			instances++
		}
	}
	facts[how] = []any{described[0].State, described[0].ProtocolType, described[0].Protocol, len(described[0].Members), instances}
	cancel()
	running.Wait()
	offsets, err := admin.ListConsumerGroupOffsets(id, nil)
	must(err)
	sum := int64(0)
	for _, each := range offsets.Blocks[topic] {
		sum += each.Offset
	}
	facts[how+" committed"] = sum
	if !static {
		facts[how+" deleted"] = word(admin.DeleteConsumerGroup(id))
	}
}

func transactions(admin sarama.ClusterAdmin, topic string) {
	target, eos := name+"-target", name+"-eos"
	must(admin.CreateTopic(target, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 3}, false))
	settings := config()
	settings.Producer.Transaction.ID = name
	producer, err := sarama.NewSyncProducer(brokers, settings)
	must(err)
	for _, kept := range []bool{true, false, true} {
		must(producer.BeginTxn())
		for n := range 10 {
			_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: target, Value: sarama.StringEncoder(fmt.Sprint(kept, n))})
			must(err)
		}
		at := int64(99)
		if kept {
			at = 7
		}
		metadata := "in a transaction"
		must(producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{
			topic: {{Partition: 0, Offset: at, LeaderEpoch: -1, Metadata: &metadata}},
		}, eos))
		if kept {
			must(producer.CommitTxn())
		} else {
			must(producer.AbortTxn())
		}
	}
	consumer, err := sarama.NewConsumer(brokers, config())
	must(err)
	reader, err := consumer.ConsumePartition(target, 0, sarama.OffsetOldest)
	must(err)
	values := []string{}
	for len(values) < 20 {
		values = append(values, string((<-reader.Messages()).Value))
	}
	must(reader.Close())
	must(consumer.Close())
	facts["transacted"] = values
	offsets, err := admin.ListConsumerGroupOffsets(eos, map[string][]int32{topic: {0}})
	must(err)
	facts["sent offsets"] = []any{offsets.Blocks[topic][0].Offset, offsets.Blocks[topic][0].Metadata}

	must(producer.BeginTxn())
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: target, Value: sarama.StringEncoder("zombie")})
	must(err)
	successor, err := sarama.NewSyncProducer(brokers, settings)
	must(err)
	facts["fenced"] = producer.CommitTxn() != nil
	must(successor.Close())
	producer.Close()
}

func main() {
	brokers, name = strings.Split(os.Args[1], ","), os.Args[2]
	topic := name + "-topic"
	admin, err := sarama.NewClusterAdmin(brokers, config())
	must(err)
	topics(admin, topic)
	produced(topic)
	group(admin, topic, sarama.NewBalanceStrategyRange(), false)
	group(admin, topic, sarama.NewBalanceStrategySticky(), false)
	group(admin, topic, sarama.NewBalanceStrategyRoundRobin(), true)
	transactions(admin, topic)
	facts["deleted records"] = word(admin.DeleteRecords(topic, map[int32]int64{0: 5}))
	must(admin.DeleteTopic(topic))
	must(admin.Close())
	must(json.NewEncoder(os.Stdout).Encode(facts))
}
