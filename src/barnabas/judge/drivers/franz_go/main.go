// franz-go as a driver of `barnabas judge`: lines in, lines out, as barnabas.judge.drivers describes them.
//
// Nothing is said to have failed: a record or an end that the client gives up may have been written by then, or may be
// written later.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var (
	out   = bufio.NewWriter(os.Stdout)
	outMu sync.Mutex
)

func say(client string, format string, values ...any) {
	outMu.Lock()
	defer outMu.Unlock()
	fmt.Fprintf(out, client+" "+format+"\n", values...)
	out.Flush()
}

// name is an error in one word.
func name(err error) string {
	var told *kerr.Error
	if errors.As(err, &told) {
		return told.Message
	}
	return strings.Join(strings.Fields(err.Error()), "_")
}

func number(word string) int64 {
	value, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return value
}

// A worker is one client: it does what it is told, in that order.
type worker struct {
	name     string
	told     chan []string
	allowed  chan struct{}
	kafka    *kgo.Client
	consumes bool
	// session is a copier's, which commits its group's offsets in its transactions.
	session *kgo.GroupTransactSession
	ended   bool
	begins  map[string]map[int32]int64
}

// words: client producer BOOTSTRAP ACKS, client transactor BOOTSTRAP ID TIMEOUT_MS,
// client consumer BOOTSTRAP GROUP TOPIC ISOLATION, or client copier BOOTSTRAP ID TIMEOUT_MS GROUP TOPIC
func open(words []string) *worker {
	made := &worker{name: words[0], told: make(chan []string, 10_000), allowed: make(chan struct{}, 1)}
	options := append([]kgo.Opt{
		kgo.ClientID(words[0]), kgo.SeedBrokers(strings.Split(words[2], ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(time.Second),
	}, secured...)
	switch words[1] {
	case "producer":
		// Without an end to its patience: records that run out of time may be there, and those behind them too.
		if words[3] == "1" {
			options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
		}
	case "transactor":
		timeout := time.Duration(number(words[4])) * time.Millisecond
		options = append(options, kgo.TransactionalID(words[3]), kgo.TransactionTimeout(timeout))
	case "consumer":
		made.consumes = true
		isolation := kgo.ReadUncommitted()
		if words[5] == "read_committed" {
			isolation = kgo.ReadCommitted()
		}
		options = append(options, kgo.FetchIsolationLevel(isolation), kgo.DisableAutoCommit())
		options = append(options, made.member(words[3], words[4])...)
	case "copier":
		made.consumes = true
		timeout := time.Duration(number(words[4])) * time.Millisecond
		options = append(options, kgo.TransactionalID(words[3]), kgo.TransactionTimeout(timeout),
			kgo.RequireStableFetchOffsets(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		options = append(options, made.member(words[5], words[6])...)
		session, err := kgo.NewGroupTransactSession(options...)
		if err != nil {
			panic(err)
		}
		made.session, made.kafka = session, session.Client()
		return made
	}
	kafka, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	made.kafka = kafka
	return made
}

// member is what all members of groups have, which tell where they begin.
func (w *worker) member(group, topic string) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(10 * time.Second), kgo.RebalanceTimeout(20 * time.Second),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			// Offsets are asked for after this, and so after the time that is noted before the answer to it.
			say(w.name, "assigning")
			<-w.allowed
		}),
		kgo.AdjustFetchOffsetsFn(w.assigned),
	}
}

// assigned tells where the client begins: at what the group has committed, or at -1 where there is nothing.
func (w *worker) assigned(
	_ context.Context, offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	for topic, partitions := range offsets {
		for partition, each := range partitions {
			say(w.name, "assigned %s %d %d", topic, partition, max(-1, each.EpochOffset().Offset))
		}
	}
	return offsets, nil
}

func (w *worker) run() {
	for words := range w.told {
		switch words[1] {
		case "send":
			w.send(words)
		case "init":
			w.done(within(15*time.Second, func(ctx context.Context) error {
				_, _, err := w.kafka.ProducerID(ctx)
				return err
			}), "over")
		case "flush":
			w.done(within(15*time.Second, w.kafka.Flush), "abort")
		case "commit", "abort", "begin":
			w.transact(words[1])
		case "send-offsets": // they go with the commit
			w.done(nil, "")
		case "rewind":
			for topic, partitions := range w.begins {
				for partition, offset := range partitions {
					say(w.name, "rewound %s %d %d", topic, partition, offset)
				}
			}
			w.done(nil, "")
		case "poll":
			w.poll(time.Duration(number(words[2])) * time.Millisecond)
			w.done(nil, "")
		case "commit-offsets":
			w.commitOffsets()
			w.done(nil, "")
		case "close":
			if w.consumes {
				w.kafka.CloseAllowingRebalance()
			} else {
				_ = within(20*time.Second, w.kafka.Flush) // what is not sent by then is given up
				w.kafka.Close()
			}
			w.done(nil, "")
			return
		default:
			panic(words[1])
		}
	}
}

// transact begins or ends a transaction, with what its group has read in it where the client is a copier.
func (w *worker) transact(word string) {
	ctx := context.Background()
	switch {
	case word == "begin" && w.session != nil:
		w.ended = false
		w.done(w.session.Begin(), "over")
	case word == "begin":
		w.done(w.kafka.BeginTransaction(), "over")
	case word == "commit" && w.session != nil:
		committed, err := w.session.End(ctx, kgo.TryCommit)
		w.ended = true
		switch {
		case err != nil:
			w.done(err, "over")
		case !committed: // its group has rebalanced meanwhile, and it was aborted
			w.done(errors.New("NOT_COMMITTED"), "abort")
		default:
			w.done(nil, "")
		}
	case word == "commit":
		err := w.kafka.EndTransaction(ctx, kgo.TryCommit)
		// After any other error it may be committed, and an abort would be said to be done all the same.
		next := "over"
		if errors.Is(err, kerr.OperationNotAttempted) || errors.Is(err, kerr.TransactionAbortable) {
			next = "abort"
		}
		w.done(err, next)
	case w.session != nil && w.ended:
		w.done(nil, "")
	case w.session != nil:
		_, err := w.session.End(ctx, kgo.TryAbort)
		w.done(err, "over")
	default:
		err := w.kafka.AbortBufferedRecords(ctx)
		if err == nil {
			err = w.kafka.EndTransaction(ctx, kgo.TryAbort)
		}
		w.done(err, "over")
	}
}

func within(patience time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return call(ctx)
}

// done tells how the last word ended, and after an error what is to be done.
func (w *worker) done(err error, next string) {
	if err == nil {
		say(w.name, "done ok")
	} else {
		say(w.name, "done unknown %s %s", next, name(err))
	}
}

func (w *worker) send(words []string) {
	record := &kgo.Record{Topic: words[2], Partition: int32(number(words[3])), Value: []byte(words[5])}
	if words[4] != "-" {
		record.Key = []byte(words[4])
	}
	w.kafka.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
		if err != nil {
			say(w.name, "sent %s unknown %s", words[5], name(err))
		} else {
			say(w.name, "sent %s ok %d", words[5], sent.Offset)
		}
	})
}

// poll lets others rebalance until it has its records: nobody takes partitions away between a poll and its commit.
func (w *worker) poll(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.kafka.AllowRebalance()
	w.begins = map[string]map[int32]int64{}
	w.kafka.PollRecords(ctx, 500).EachRecord(func(each *kgo.Record) {
		if w.begins[each.Topic] == nil {
			w.begins[each.Topic] = map[int32]int64{}
		}
		if _, known := w.begins[each.Topic][each.Partition]; !known {
			w.begins[each.Topic][each.Partition] = each.Offset
		}
		key := "-"
		if each.Key != nil {
			key = string(each.Key)
		}
		say(w.name, "read %s %d %d %s %s", each.Topic, each.Partition, each.Offset, key, each.Value)
	})
}

func (w *worker) commitOffsets() {
	offsets := w.kafka.UncommittedOffsets()
	if len(offsets) == 0 {
		return
	}
	errs := map[string]map[int32]error{}
	var failed error
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w.kafka.CommitOffsetsSync(ctx, offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err != nil {
				return
			}
			for _, topic := range answer.Topics {
				errs[topic.Topic] = map[int32]error{}
				for _, each := range topic.Partitions {
					errs[topic.Topic][each.Partition] = kerr.ErrorForCode(each.ErrorCode)
				}
			}
		})
	for topic, partitions := range offsets {
		for partition, each := range partitions {
			err, answered := errs[topic][partition]
			switch {
			case failed != nil:
				say(w.name, "committed %s %d %d unknown %s", topic, partition, each.Offset, name(failed))
			case !answered:
				say(w.name, "committed %s %d %d unknown UNANSWERED", topic, partition, each.Offset)
			case err != nil:
				say(w.name, "committed %s %d %d unknown %s", topic, partition, each.Offset, name(err))
			default:
				say(w.name, "committed %s %d %d ok", topic, partition, each.Offset)
			}
		}
	}
}

// secured is what secures connections, of the file that the program was named: JSON by librdkafka's names.
var secured []kgo.Opt

func secure(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	config := map[string]string{}
	if err := json.Unmarshal(data, &config); err != nil {
		panic(err)
	}
	if strings.HasSuffix(config["security.protocol"], "SSL") {
		secured = append(secured, kgo.DialTLSConfig(tlsOf(config)))
	}
	user, password := config["sasl.username"], config["sasl.password"]
	switch config["sasl.mechanism"] {
	case "":
	case "PLAIN":
		secured = append(secured, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		secured = append(secured, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		secured = append(secured, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	default:
		panic(config["sasl.mechanism"])
	}
}

func tlsOf(config map[string]string) *tls.Config {
	made := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities := pemOf(config, "ssl.ca"); authorities != nil {
		made.RootCAs = x509.NewCertPool()
		if !made.RootCAs.AppendCertsFromPEM(authorities) {
			panic("ssl.ca.location has no certificate")
		}
	}
	if chain := pemOf(config, "ssl.certificate"); chain != nil {
		own, err := tls.X509KeyPair(chain, pemOf(config, "ssl.key"))
		if err != nil {
			panic(err)
		}
		made.Certificates = []tls.Certificate{own}
	}
	return made
}

// pemOf is what stands under NAME.pem, or in the file of NAME.location; nil where there is neither.
func pemOf(config map[string]string, name string) []byte {
	if text, ok := config[name+".pem"]; ok {
		return []byte(text)
	}
	path, ok := config[name+".location"]
	if !ok {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return data
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, each := range info.Deps {
			if each.Path == "github.com/twmb/franz-go" {
				return strings.TrimPrefix(each.Version, "v")
			}
		}
	}
	return "of unknown version"
}

func main() {
	if len(os.Args) > 1 {
		secure(os.Args[1])
	}
	workers := map[string]*worker{}
	say("ready", "franz-go %s", version())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		switch words[1] {
		case "producer", "transactor", "consumer", "copier":
			made := open(words)
			workers[words[0]] = made
			go made.run()
		case "go":
			workers[words[0]].allowed <- struct{}{}
		default:
			workers[words[0]].told <- words
		}
	}
}
