// The crate rocketmq for the tests, told by lines of JSON what to do: the verbs of python_host.py that it can do, with
// its own settings, also for the wait of a receive. What it has not is answered with "missing".
// In: [number, verb, arguments]. Out: {answer, result|error, code, missing}.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};

enum Refused {
    Failed(String),
    Missing(String),
}

impl From<ClientError> for Refused {
    fn from(error: ClientError) -> Self {
        Refused::Failed(format!("{error:?}"))
    }
}

struct Consumer {
    client: SimpleConsumer,
    topic: String,
    wanted: FilterExpression,
}

struct Host {
    endpoints: String,
    handles: AtomicU64,
    producers: Mutex<HashMap<u64, Arc<Producer>>>,
    consumers: Mutex<HashMap<u64, Arc<Consumer>>>,
    messages: Mutex<HashMap<u64, Arc<MessageView>>>,
}

fn say(value: Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{value}");
    let _ = out.flush();
}

fn text(given: &Value, name: &str) -> String {
    given[name].as_str().unwrap_or_default().to_string()
}

impl Host {
    fn next(&self) -> u64 {
        self.handles.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn options(&self) -> ClientOption {
        let mut options = ClientOption::default();
        options.set_access_url(self.endpoints.clone());
        options
    }

    async fn run(&self, verb: &str, given: &Value) -> Result<Value, Refused> {
        match verb {
            "producer" => self.producer(given).await,
            "send" => self.send(given).await,
            "simple" => self.simple(given).await,
            "receive" => self.receive(given).await,
            "ack" => self.ack(given).await,
            _ => Err(Refused::Missing(format!("no {verb}"))),
        }
    }

    async fn producer(&self, given: &Value) -> Result<Value, Refused> {
        let topics = given["topics"].as_array().into_iter().flatten();
        let mut option = ProducerOption::default();
        option.set_topics(topics.filter_map(Value::as_str).collect());
        let resolution = text(given, "resolution");
        let checker = move |_, message: MessageView| {
            say(json!({"checked": message.message_id()}));
            match resolution.as_str() {
                "commit" => TransactionResolution::COMMIT,
                "rollback" => TransactionResolution::ROLLBACK,
                _ => TransactionResolution::UNKNOWN,
            }
        };
        let mut producer =
            Producer::new_transaction_producer(option, self.options(), Box::new(checker))?;
        producer.start().await?;
        let handle = self.next();
        self.producers.lock().unwrap().insert(handle, Arc::new(producer));
        Ok(json!(handle))
    }

    async fn send(&self, given: &Value) -> Result<Value, Refused> {
        for name in ["priority", "lite"] {
            if !given[name].is_null() {
                return Err(Refused::Missing(format!("no {name} of a message")));
            }
        }
        let handle = given["client"].as_u64().unwrap();
        let producer = self.producers.lock().unwrap()[&handle].clone();
        let body = STANDARD.decode(text(given, "body")).unwrap();
        let end = text(given, "end");
        let topic = text(given, "topic");
        let mut builder = if end.is_empty() {
            MessageBuilder::builder().set_topic(topic).set_body(body)
        } else {
            MessageBuilder::transaction_message_builder(topic, body)
        };
        if let Some(tag) = given["tag"].as_str() {
            builder = builder.set_tag(tag);
        }
        if let Some(keys) = given["keys"].as_array() {
            builder = builder.set_keys(keys.iter().filter_map(Value::as_str).collect());
        }
        if let Some(properties) = given["properties"].as_object() {
            let all = properties.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
            builder = builder.set_properties(all.collect());
        }
        if let Some(group) = given["group"].as_str() {
            builder = builder.set_message_group(group);
        }
        if let Some(at) = given["deliver_at"].as_i64() {
            builder = builder.set_delivery_timestamp(at);
        }
        let message = builder.build()?;
        let id = if end.is_empty() {
            producer.send(message).await?.message_id().to_string()
        } else {
            let transaction = producer.send_transaction_message(message).await?;
            let id = transaction.message_id().to_string();
            match end.as_str() {
                "commit" => transaction.commit().await?,
                "rollback" => transaction.rollback().await?,
                _ => (),
            }
            id
        };
        Ok(json!({"id": id, "recall": null}))
    }

    async fn simple(&self, given: &Value) -> Result<Value, Refused> {
        let (topic, filter) = given["subscriptions"].as_object().unwrap().iter().next().unwrap();
        let kind = if filter[0] == "sql" { FilterType::Sql } else { FilterType::Tag };
        let mut option = SimpleConsumerOption::default();
        option.set_consumer_group(text(given, "group"));
        option.set_topics(vec![topic.clone()]);
        let mut client = SimpleConsumer::new(option, self.options())?;
        client.start().await?;
        let wanted = FilterExpression::new(kind, filter[1].as_str().unwrap());
        let handle = self.next();
        let consumer = Consumer { client, topic: topic.clone(), wanted };
        self.consumers.lock().unwrap().insert(handle, Arc::new(consumer));
        Ok(json!(handle))
    }

    async fn receive(&self, given: &Value) -> Result<Value, Refused> {
        let consumer = self.consumer(given);
        let count = given["count"].as_i64().unwrap() as i32;
        let invisible = Duration::from_secs(given["invisible"].as_u64().unwrap());
        let found = consumer
            .client
            .receive_with(&consumer.topic, &consumer.wanted, count, invisible)
            .await?;
        Ok(found.into_iter().map(|message| self.shown(message)).collect())
    }

    async fn ack(&self, given: &Value) -> Result<Value, Refused> {
        let token = given["token"].as_u64().unwrap();
        let message = self.messages.lock().unwrap()[&token].clone();
        self.consumer(given).client.ack(&*message).await?;
        Ok(Value::Null)
    }

    fn consumer(&self, given: &Value) -> Arc<Consumer> {
        self.consumers.lock().unwrap()[&given["client"].as_u64().unwrap()].clone()
    }

    fn shown(&self, message: MessageView) -> Value {
        let token = self.next();
        let mut keys = message.keys().to_vec();
        keys.sort();
        let shown = json!({
            "token": token,
            "body": STANDARD.encode(message.body()),
            "topic": message.topic(),
            "tag": message.tag().unwrap_or_default(),
            "keys": keys,
            "properties": message.properties(),
            "group": message.message_group().unwrap_or_default(),
            "lite": "",
            "id": message.message_id(),
            "attempt": message.delivery_attempt(),
            "corrupted": false,
        });
        self.messages.lock().unwrap().insert(token, Arc::new(message));
        shown
    }
}

#[tokio::main]
async fn main() {
    let said: Value = serde_json::from_str(&std::env::args().nth(1).unwrap()).unwrap();
    let host = Arc::new(Host {
        endpoints: text(&said, "endpoints"),
        handles: AtomicU64::new(0),
        producers: Mutex::default(),
        consumers: Mutex::default(),
        messages: Mutex::default(),
    });
    let runtime = tokio::runtime::Handle::current();
    let reading = tokio::task::spawn_blocking(move || {
        for line in io::stdin().lock().lines() {
            let asked: Value = serde_json::from_str(&line.unwrap()).unwrap();
            let host = host.clone();
            runtime.spawn(async move {
                let verb = asked[1].as_str().unwrap();
                say(match host.run(verb, &asked[2]).await {
                    Ok(result) => json!({"answer": asked[0], "result": result}),
                    Err(Refused::Failed(text)) => json!({"answer": asked[0], "error": text, "code": null}),
                    Err(Refused::Missing(text)) => json!({"answer": asked[0], "error": text, "missing": true}),
                });
            });
        }
    });
    let _ = reading.await;
    std::process::exit(0);
}
