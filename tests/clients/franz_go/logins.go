// franz-go comes in by every mechanism: two records written and read in a group, and a wrong secret refused. Takes a
// file of logins (JSON), prints facts by login.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type login struct {
	Mechanism, Bootstrap, Authority, Key, Certificate, User, Password, Token, Topic string
}

func (l login) mechanism(wrong string) sasl.Mechanism {
	password := l.Password + wrong
	switch l.Mechanism {
	case "PLAIN":
		return plain.Auth{User: l.User, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: l.User, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: l.User, Pass: password}.AsSha512Mechanism()
	}
	return oauth.Auth{Token: l.Token + wrong}.AsMechanism()
}

func (l login) client(wrong string, options ...kgo.Opt) *kgo.Client {
	trusted := x509.NewCertPool()
	authority, err := os.ReadFile(l.Authority)
	must(err)
	trusted.AppendCertsFromPEM(authority)
	secured := &tls.Config{RootCAs: trusted}
	if l.Mechanism == "mTLS" {
		pair, err := tls.LoadX509KeyPair(l.Certificate, l.Key)
		must(err)
		secured.Certificates = []tls.Certificate{pair}
	} else {
		options = append(options, kgo.SASL(l.mechanism(wrong)))
	}
	options = append(options, kgo.SeedBrokers(strings.Split(l.Bootstrap, ",")...), kgo.DialTLSConfig(secured))
	made, err := kgo.NewClient(options...)
	must(err)
	return made
}

func (l login) goAndCome() []string {
	writing := l.client("", kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer writing.Close()
	for partition := range int32(2) {
		record := &kgo.Record{Topic: l.Topic, Partition: partition, Value: fmt.Appendf(nil, "to %d", partition)}
		must(writing.ProduceSync(ctx, record).FirstErr())
	}
	start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	reading := l.client("", kgo.ConsumeTopics(l.Topic), kgo.ConsumerGroup(l.Topic), start)
	defer reading.Close()
	values := []string{}
	for len(values) < 2 {
		fetches := reading.PollFetches(ctx)
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	sort.Strings(values)
	return values
}

func (l login) refused() bool {
	if l.Mechanism == "mTLS" {
		return true
	}
	guessing := l.client("?", kgo.RetryTimeout(time.Second))
	defer guessing.Close()
	err := guessing.Ping(ctx)
	return errors.Is(err, kerr.SaslAuthenticationFailed)
}

func logIn(file string) {
	limited, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ctx = limited
	text, err := os.ReadFile(file)
	must(err)
	var logins []login
	must(json.Unmarshal(text, &logins))
	for _, each := range logins {
		facts[each.Mechanism] = []any{each.goAndCome(), each.refused()}
	}
	must(json.NewEncoder(os.Stdout).Encode(facts))
}
