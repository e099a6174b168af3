// npm cloudevents as a receiver of webhooks: prints its port, then a line for each event.
import { createServer } from "node:http";
import { HTTP } from "cloudevents";

const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    if (request.method === "OPTIONS") {
      response.setHeader("webhook-allowed-origin", request.headers["webhook-request-origin"]);
      response.setHeader("webhook-allowed-rate", "*");
      response.end();
      return;
    }
    try {
      const found = HTTP.toEvent({ headers: request.headers, body: Buffer.concat(parts).toString() });
      for (const event of Array.isArray(found) ? found : [found]) {
        event.validate();
        console.log(JSON.stringify({ id: event.id, data: event.data, unit: event.unit, type: event.type }));
      }
      response.statusCode = 204;
    } catch (error) {
      console.log(JSON.stringify({ error: String(error) }));
      response.statusCode = 400;
    }
    response.end();
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
