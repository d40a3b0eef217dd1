// A load by franz-go with its defaults (idempotent, acks=all): what `barnabas bench clients` measures brokers with.
//
//	load produce BOOTSTRAP TOPIC RECORDS BYTES RATE TRANSACTION_MS
//	load consume BOOTSTRAP TOPIC RECORDS
//
// RATE is in records a second, 0 for as fast as it goes; TRANSACTION_MS is how long a transaction is open, 0 for none.
// Prints one JSON object: the seconds from the first record to the last acknowledgement, or to the last record read.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func tell(began time.Time) {
	json.NewEncoder(os.Stdout).Encode(map[string]float64{"seconds": time.Since(began).Seconds()})
}

func produce(bootstrap, topic string, records, size, rate int, transaction time.Duration) error {
	ctx := context.Background()
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.DefaultProduceTopic(topic)}
	if transaction > 0 {
		options = append(options, kgo.TransactionalID(fmt.Sprintf("load-%d", os.Getpid())))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	value := make([]byte, size)
	rand.Read(value)
	var failed atomic.Value
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.Store(err)
		}
	}
	end := func() error {
		if err := client.Flush(ctx); err != nil {
			return err
		}
		if transaction > 0 {
			return client.EndTransaction(ctx, kgo.TryCommit)
		}
		return nil
	}
	began := time.Now()
	var open time.Time
	for sent := 0; sent < records; sent++ {
		if transaction > 0 && !open.IsZero() && time.Since(open) > transaction {
			if err := end(); err != nil {
				return err
			}
			open = time.Time{}
		}
		if transaction > 0 && open.IsZero() {
			if err := client.BeginTransaction(); err != nil {
				return err
			}
			open = time.Now()
		}
		if rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(sent) * time.Second / time.Duration(rate))))
		}
		client.Produce(ctx, &kgo.Record{Value: value}, done)
	}
	if err := end(); err != nil {
		return err
	}
	if err, ok := failed.Load().(error); ok {
		return err
	}
	tell(began)
	return nil
}

func consume(bootstrap, topic string, records int) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	began := time.Now()
	for read := 0; read < records; {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return err
		}
		read += fetches.NumRecords()
	}
	tell(began)
	return nil
}

func main() {
	var err error
	switch arguments := os.Args; arguments[1] {
	case "produce":
		transaction := time.Duration(number(arguments[7])) * time.Millisecond
		err = produce(arguments[2], arguments[3], number(arguments[4]), number(arguments[5]), number(arguments[6]), transaction)
	case "consume":
		err = consume(arguments[2], arguments[3], number(arguments[4]))
	}
	if err != nil {
		log.Fatal(err)
	}
}
