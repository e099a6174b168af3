// npm cloudevents with fetch: publishes in each mode, receives, and prints what came.
import { CloudEvent, HTTP, emitterFor } from "cloudevents";

const [url, topic] = process.argv.slice(2);
const event = (id, data) =>
  new CloudEvent({ id, source: "/js", type: "reading", subject: "line1/temp", unit: "celsius", data });

const post = async ({ headers, body }) => {
  const answer = await fetch(`${url}/topics/${topic}:publish`, { method: "POST", headers, body });
  if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
};

await post(HTTP.binary(event("binary", { n: 1 })));
await post(HTTP.structured(event("structured", { n: 2 })));
const batch = [event("batch-1", { n: 3 }), event("batch-2", { n: 4 })];
await post({
  headers: { "content-type": "application/cloudevents-batch+json" },
  body: JSON.stringify(batch),
});
await emitterFor(async (message) => post(message))(event("emitted", { n: 5 }));

const found = {};
while (Object.keys(found).length < 5) {
  const path = `${url}/topics/${topic}/eventsubscriptions/js:receive?maxEvents=10&maxWaitTime=5`;
  const { value } = await (await fetch(path, { method: "POST" })).json();
  if (!value.length) break;
  for (const { event } of value) {
    const read = HTTP.toEvent({ headers: { "content-type": "application/cloudevents+json" }, body: JSON.stringify(event) });
    read.validate();
    found[read.id] = { data: read.data, subject: read.subject, unit: read.unit, source: read.source };
  }
}
console.log(JSON.stringify(found));
