// What franz-go makes of a cluster: topics, an idempotent producer, groups both eager and cooperative, static members,
// and transactions with their offsets. Prints JSON facts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	facts = map[string]any{}
	seeds []string
	name  string
	ctx   context.Context
)

func must(err error) {
	if err != nil {
		told, _ := json.Marshal(facts)
		fmt.Fprintln(os.Stderr, err, string(told))
		os.Exit(1)
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID(name)}, options...)...)
	must(err)
	return made
}

func word(err error) string {
	var told *kerr.Error
	if err == nil {
		return "done"
	}
	if errors.As(err, &told) {
		return told.Message
	}
	return err.Error()
}

// A broker that is asked for the topic's partitions may not have heard of it yet, as it may not on Apache Kafka.
func grow(admin *kadm.Client, topic string) error {
	for {
		grown, err := admin.CreatePartitions(ctx, 1, topic)
		if err == nil {
			err = grown.Error()
		}
		if !errors.Is(err, kerr.UnknownTopicOrPartition) || ctx.Err() != nil {
			return err
		}
	}
}

func topics(admin *kadm.Client, topic string) {
	hour := "3600000"
	made, err := admin.CreateTopic(ctx, 3, 3, map[string]*string{"retention.ms": &hour}, topic)
	must(err)
	facts["created"] = []any{made.NumPartitions, made.ReplicationFactor}
	_, again := admin.CreateTopic(ctx, 3, 3, nil, topic)
	_, bad := admin.CreateTopic(ctx, 3, 3, nil, "not a name")
	_, many := admin.CreateTopic(ctx, 1, 9, nil, name+"-many")
	facts["refused"] = []string{word(again), word(bad), word(many)}
	must(grow(admin, topic))
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("2000000")},
		{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")},
	}, topic)
	must(err)
	must(altered[0].Err)
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	must(err)
	configs := map[string]string{}
	for _, each := range described[0].Configs {
		configs[each.Key] = fmt.Sprint(each.MaybeValue(), " ", each.Source, " ", len(each.Synonyms))
	}
	facts["configs"] = configs
	listed, err := admin.ListTopics(ctx, topic)
	must(err)
	partitions := [][]int{}
	for _, each := range listed[topic].Partitions.Sorted() {
		partitions = append(partitions, []int{int(each.Partition), len(each.Replicas)})
	}
	facts["partitions"] = partitions
}

func produced(topic string) {
	producer := client(kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	defer producer.Close()
	records := []*kgo.Record{}
	for n := range 300 {
		records = append(records, &kgo.Record{
			Topic: topic, Key: fmt.Appendf(nil, "k%d", n%17), Value: fmt.Appendf(nil, "v%d", n),
			Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, n)}},
		})
	}
	results := producer.ProduceSync(ctx, records...)
	must(results.FirstErr())
	ends := map[string]int64{}
	for _, each := range results {
		at := fmt.Sprint(each.Record.Partition)
		ends[at] = max(ends[at], each.Record.Offset)
	}
	facts["produced"] = ends
}

// Two members, until each has two of four partitions and all 300 records were seen.
func group(admin *kadm.Client, topic, how string, options ...kgo.Opt) {
	id := name + "-" + how
	counts := make(chan [2]int, 1000)
	stop, cancel := context.WithCancel(ctx)
	members := []*kgo.Client{}
	seen := make(chan string, 1000)
	for index := range 2 {
		own := 0
		change := func(by int) func(context.Context, *kgo.Client, map[string][]int32) {
			return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
				own += by * len(changed[topic])
				counts <- [2]int{index, own}
			}
		}
		settings := append([]kgo.Opt{
			kgo.ConsumerGroup(id), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.OnPartitionsAssigned(change(1)), kgo.OnPartitionsRevoked(change(-1)), kgo.OnPartitionsLost(change(-1)),
			kgo.HeartbeatInterval(300 * time.Millisecond), kgo.SessionTimeout(10 * time.Second), kgo.AutoCommitMarks(),
		}, options...)
		if how == "static" {
			settings = append(settings, kgo.InstanceID(fmt.Sprint("instance-", index)))
		}
		member := client(settings...)
		members = append(members, member)
		go func() {
			for stop.Err() == nil {
				member.PollFetches(stop).EachRecord(func(each *kgo.Record) {
					member.MarkCommitRecords(each)
					seen <- string(each.Value)
				})
			}
		}()
	}
	values, now := map[string]bool{}, [2]int{}
	for len(values) < 300 || now != [2]int{2, 2} {
		select {
		case value := <-seen:
			values[value] = true
		case count := <-counts:
			now[count[0]] = count[1]
		case <-ctx.Done():
			must(fmt.Errorf("%s: %d records, %v partitions", how, len(values), now))
		}
	}
	described, err := admin.DescribeGroups(ctx, id)
	must(err)
	instances := []string{}
	for _, each := range described[id].Members {
		if each.InstanceID != nil {
			instances = append(instances, *each.InstanceID)
		}
	}
	sort.Strings(instances)
	facts[how] = []any{described[id].State, described[id].ProtocolType, described[id].Protocol, instances}
	// Who got a partition in the rebalance may still be reading again what its owner before had read.
	sum := int64(0)
	for sum != 300 {
		for _, member := range members {
			must(member.CommitMarkedOffsets(ctx))
		}
		offsets, err := admin.FetchOffsets(ctx, id)
		must(err)
		sum = 0
		offsets.Each(func(each kadm.OffsetResponse) { sum += each.At })
	}
	cancel()
	for _, member := range members {
		member.Close()
	}
	facts[how+" committed"] = sum
}

func transactions(admin *kadm.Client, topic string) {
	target := name + "-target"
	_, err := admin.CreateTopic(ctx, 1, 3, nil, target)
	must(err)
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(seeds...), kgo.TransactionalID(name), kgo.ConsumerGroup(name+"-eos"), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	must(err)
	taken := 0
	for round := 0; taken < 300; round++ {
		fetches := session.PollRecords(ctx, 60)
		must(fetches.Err0())
		must(session.Begin())
		fetches.EachRecord(func(each *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: target, Value: each.Value}, nil)
		})
		kept, err := session.End(ctx, kgo.TransactionEndTry(round%2 == 1))
		must(err)
		if kept {
			taken += fetches.NumRecords()
		}
	}
	session.Close()
	reader := client(
		kgo.ConsumeTopics(target), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	defer reader.Close()
	values, count := map[string]bool{}, 0
	for count < 300 {
		reader.PollFetches(ctx).EachRecord(func(each *kgo.Record) {
			values[string(each.Value)] = true
			count++
		})
	}
	facts["transacted"] = []int{len(values), count}
	described, err := admin.DescribeTransactions(ctx, name)
	must(err)
	facts["transaction"] = []any{described[name].State != "Ongoing", described[name].TimeoutMillis}

	zombie := client(kgo.TransactionalID(name), kgo.DefaultProduceTopic(target))
	must(zombie.BeginTransaction())
	must(zombie.ProduceSync(ctx, kgo.StringRecord("zombie")).FirstErr())
	successor := client(kgo.TransactionalID(name), kgo.DefaultProduceTopic(target))
	must(successor.BeginTransaction())
	must(successor.ProduceSync(ctx, kgo.StringRecord("successor")).FirstErr())
	facts["fenced"] = word(zombie.EndTransaction(ctx, kgo.TryCommit))
	must(successor.EndTransaction(ctx, kgo.TryCommit))
	zombie.Close()
	successor.Close()
}

func ends(admin *kadm.Client, topic string) {
	deleted, err := admin.DeleteRecords(ctx, kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 5}}})
	must(err)
	must(deleted.Error())
	starts, err := admin.ListStartOffsets(ctx, topic)
	must(err)
	latest, err := admin.ListMaxTimestampOffsets(ctx, topic)
	must(err)
	offsets := map[string][]int64{}
	starts.Each(func(each kadm.ListedOffset) {
		last, _ := latest.Lookup(topic, each.Partition)
		offsets[fmt.Sprint(each.Partition)] = []int64{each.Offset, last.Offset}
	})
	facts["offsets"] = offsets
	groups, err := admin.DeleteGroups(ctx, name+"-eager", name+"-absent")
	must(err)
	facts["deleted groups"] = []string{word(groups[name+"-eager"].Err), word(groups[name+"-absent"].Err)}
	dirs, err := admin.DescribeAllLogDirs(ctx, kadm.TopicsSet{topic: {0: {}}})
	must(err)
	facts["log dirs"] = len(dirs)
	gone, err := admin.DeleteTopics(ctx, topic, name+"-absent")
	must(err)
	facts["deleted"] = []string{word(gone[topic].Err), word(gone[name+"-absent"].Err)}
}

func main() {
	if os.Args[1] == "logins" {
		logIn(os.Args[2])
		return
	}
	seeds, name = strings.Split(os.Args[1], ","), os.Args[2]
	var cancel context.CancelFunc
	ctx, cancel = context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	topic := name + "-topic"
	connection := client()
	admin := kadm.NewClient(connection)
	topics(admin, topic)
	produced(topic)
	group(admin, topic, "eager", kgo.Balancers(kgo.RangeBalancer()))
	group(admin, topic, "cooperative", kgo.Balancers(kgo.CooperativeStickyBalancer()))
	group(admin, topic, "static", kgo.Balancers(kgo.RangeBalancer()))
	transactions(admin, topic)
	ends(admin, topic)
	connection.Close()
	must(json.NewEncoder(os.Stdout).Encode(facts))
}
