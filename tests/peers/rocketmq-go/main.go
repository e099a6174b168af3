// RocketMQ's Go module for the tests, told by lines of JSON what to do: the verbs of python_host.py that the list of
// capabilities needs. All settings are the SDK's own, TLS with them.
// In: [number, verb, arguments]. Out: {answer, result|error, code} or {pushed: handle, message|done}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

const (
	maxLine   = 16 << 20
	awaitPush = 5 * time.Second // as in its examples
	leaseLite = 30 * time.Second
)

type given struct {
	Client        uint64
	Token         uint64
	Topic         string
	Topics        []string
	Group         string
	Body          []byte
	Tag           string
	Keys          []string
	Properties    map[string]string
	DeliverAt     int64 `json:"deliver_at"`
	Lite          string
	LiteTopic     string   `json:"lite_topic"`
	LiteTopics    []string `json:"lite_topics"`
	Priority      *int32
	End           string
	Handle        string
	Resolution    string
	Subscriptions map[string][2]string
	Wait          int64
	Count         int32
	Invisible     int64
	Seconds       int64
	Failures      int32
}

type host struct {
	endpoints string
	lock      sync.Mutex
	last      uint64
	clients   map[uint64]any
	messages  map[uint64]*rmq.MessageView
}

var saying sync.Mutex

func say(value any) {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(string(line))
}

func seconds(count int64) time.Duration { return time.Duration(count) * time.Second }

func or(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func (h *host) next() uint64 {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.last++
	return h.last
}

func (h *host) keep(handle uint64, client any) uint64 {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.clients[handle] = client
	return handle
}

func (h *host) client(handle uint64) any {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.clients[handle]
}

func (h *host) message(token uint64) *rmq.MessageView {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.messages[token]
}

// The SDK asks for credentials; servers without users do not look at them.
func (h *host) config(group string) *rmq.Config {
	return &rmq.Config{
		Endpoint:      h.endpoints,
		ConsumerGroup: group,
		Credentials:   &credentials.SessionCredentials{AccessKey: "app", AccessSecret: "secret"},
	}
}

func (h *host) run(verb string, asked given) (any, error) {
	switch verb {
	case "producer":
		return h.producer(asked)
	case "send":
		return h.send(asked)
	case "recall":
		return h.client(asked.Client).(rmq.Producer).Recall(context.Background(), asked.Topic, asked.Handle)
	case "simple":
		return h.simple(asked)
	case "receive":
		return h.receive(asked)
	case "ack":
		return nil, h.client(asked.Client).(rmq.SimpleConsumer).Ack(context.Background(), h.message(asked.Token))
	case "change":
		consumer := h.client(asked.Client).(rmq.SimpleConsumer)
		return nil, consumer.ChangeInvisibleDuration(h.message(asked.Token), seconds(asked.Seconds))
	case "push":
		return h.push(asked)
	case "lite_push":
		return h.litePush(asked)
	}
	return nil, fmt.Errorf("unknown verb %s", verb)
}

func (h *host) producer(asked given) (any, error) {
	resolution := map[string]rmq.TransactionResolution{"commit": rmq.COMMIT, "rollback": rmq.ROLLBACK}[asked.Resolution]
	producer, err := rmq.NewProducer(h.config(""), rmq.WithTopics(asked.Topics...),
		rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: func(message *rmq.MessageView) rmq.TransactionResolution {
			say(map[string]any{"checked": message.GetMessageId()})
			return resolution
		}}))
	if err == nil {
		err = producer.Start()
	}
	if err != nil {
		return nil, err
	}
	return h.keep(h.next(), producer), nil
}

func built(asked given) (*rmq.Message, error) {
	message := &rmq.Message{Topic: asked.Topic, Body: asked.Body}
	if asked.Tag != "" {
		message.SetTag(asked.Tag)
	}
	if len(asked.Keys) > 0 {
		message.SetKeys(asked.Keys...)
	}
	for name, value := range asked.Properties {
		message.AddProperty(name, value)
	}
	if asked.Group != "" {
		message.SetMessageGroup(asked.Group)
	}
	if asked.DeliverAt != 0 {
		message.SetDelayTimestamp(time.Unix(asked.DeliverAt, 0))
	}
	if asked.Lite != "" {
		message.SetLiteTopic(asked.Lite)
	}
	if asked.Priority != nil {
		return message, message.SetPriority(*asked.Priority)
	}
	return message, nil
}

func (h *host) send(asked given) (any, error) {
	message, err := built(asked)
	if err != nil {
		return nil, err
	}
	producer := h.client(asked.Client).(rmq.Producer)
	var receipts []*rmq.SendReceipt
	if asked.End == "" {
		receipts, err = producer.Send(context.Background(), message)
	} else {
		transaction := producer.BeginTransaction()
		receipts, err = producer.SendWithTransaction(context.Background(), message, transaction)
		if err == nil && asked.End == "commit" {
			err = transaction.Commit()
		}
		if err == nil && asked.End == "rollback" {
			err = transaction.RollBack()
		}
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"id": receipts[0].MessageID, "recall": receipts[0].RecallHandle}, nil
}

func wanted(asked given) map[string]*rmq.FilterExpression {
	found := map[string]*rmq.FilterExpression{}
	for topic, filter := range asked.Subscriptions {
		found[topic] = rmq.NewFilterExpression(filter[1])
		if filter[0] == "sql" {
			found[topic] = rmq.NewFilterExpressionWithType(filter[1], rmq.SQL92)
		}
	}
	return found
}

func (h *host) simple(asked given) (any, error) {
	consumer, err := rmq.NewSimpleConsumer(h.config(asked.Group), rmq.WithSimpleAwaitDuration(seconds(asked.Wait)),
		rmq.WithSimpleSubscriptionExpressions(wanted(asked)))
	if err == nil {
		err = consumer.Start()
	}
	if err != nil {
		return nil, err
	}
	return h.keep(h.next(), consumer), nil
}

// A receive for which nothing came is an error of this SDK's.
func (h *host) receive(asked given) (any, error) {
	consumer := h.client(asked.Client).(rmq.SimpleConsumer)
	found, err := consumer.Receive(context.Background(), asked.Count, seconds(asked.Invisible))
	if status, ok := rmq.AsErrRpcStatus(err); ok && status.GetCode() == int32(v2.Code_MESSAGE_NOT_FOUND) {
		found, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	shown := []any{}
	for _, message := range found {
		shown = append(shown, h.shown(message))
	}
	return shown, nil
}

func (h *host) listener(handle uint64, failures int32) rmq.PushConsumerOption {
	return rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: func(message *rmq.MessageView) rmq.ConsumerResult {
		say(map[string]any{"pushed": handle, "message": h.shown(message)})
		if message.GetDeliveryAttempt() <= failures {
			return rmq.FAILURE
		}
		say(map[string]any{"pushed": handle, "done": message.GetMessageId()})
		return rmq.SUCCESS
	}})
}

func (h *host) push(asked given) (any, error) {
	handle := h.next()
	consumer, err := rmq.NewPushConsumer(h.config(asked.Group), rmq.WithPushAwaitDuration(awaitPush),
		rmq.WithPushSubscriptionExpressions(wanted(asked)), h.listener(handle, asked.Failures))
	if err == nil {
		err = consumer.Start()
	}
	if err != nil {
		return nil, err
	}
	return h.keep(handle, consumer), nil
}

func (h *host) litePush(asked given) (any, error) {
	handle := h.next()
	consumer, err := rmq.NewLitePushConsumer(h.config(asked.Group), rmq.NewLitePushConsumerConfig(asked.Topic, leaseLite),
		rmq.WithPushAwaitDuration(awaitPush), h.listener(handle, 0))
	if err == nil {
		err = consumer.Start()
	}
	for _, name := range asked.LiteTopics {
		if err == nil {
			err = consumer.SubscribeLite(name)
		}
	}
	if err != nil {
		return nil, err
	}
	return h.keep(handle, consumer), nil
}

func (h *host) shown(message *rmq.MessageView) any {
	token := h.next()
	h.lock.Lock()
	h.messages[token] = message
	h.lock.Unlock()
	keys := append([]string{}, message.GetKeys()...)
	sort.Strings(keys)
	properties := message.GetProperties()
	if properties == nil {
		properties = map[string]string{}
	}
	return map[string]any{
		"token": token, "body": message.GetBody(), "topic": message.GetTopic(), "tag": or(message.GetTag()), "keys": keys,
		"properties": properties, "group": or(message.GetMessageGroup()), "lite": message.GetLiteTopic(),
		"id": message.GetMessageId(), "attempt": message.GetDeliveryAttempt(), "corrupted": false,
	}
}

func (h *host) answer(line []byte) {
	var parts [3]json.RawMessage
	var verb string
	var asked given
	if err := json.Unmarshal(line, &parts); err != nil {
		panic(err)
	}
	answer := map[string]any{"answer": parts[0]}
	err := json.Unmarshal(parts[1], &verb)
	if err == nil {
		err = json.Unmarshal(parts[2], &asked)
	}
	var result any
	if err == nil {
		result, err = h.run(verb, asked)
	}
	if err != nil {
		answer["error"], answer["code"] = err.Error(), nil
		if status, ok := rmq.AsErrRpcStatus(err); ok {
			answer["code"] = status.GetCode()
		}
	} else {
		answer["result"] = result
	}
	say(answer)
}

func main() {
	var said struct{ Endpoints string }
	if err := json.Unmarshal([]byte(os.Args[1]), &said); err != nil {
		panic(err)
	}
	rmq.ResetLogger()
	h := &host{endpoints: said.Endpoints, clients: map[uint64]any{}, messages: map[uint64]*rmq.MessageView{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		go h.answer(append([]byte{}, lines.Bytes()...))
	}
}
