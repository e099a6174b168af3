// Requests to this server.  Addresses are relative, so that any path prefix of a proxy works.

const ROOT = new URL("..", document.baseURI);
const BASE = new URL("api/v1/", ROOT);
// A text or a number in JSON: texts are matched so that digits in them are not taken for numbers.
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LONG_INTEGER = /^-?\d{16,}$/;

/** A refusal or a failure.  `status`: 0 where no answer came.  `code`: such as TOPIC_EXISTS.  `detail`: the server's
 * sentence.  `requestId`: or null.  `problem`: the whole problem (RFC 9457), or null. */
export class ApiError extends Error {
  constructor(status, code, detail, { requestId = null, problem = null, retryAfter = null } = {}) {
    super(detail);
    this.name = "ApiError";
    Object.assign(this, { status, code, detail, requestId, problem, retryAfter });
  }
}

const lost = new Set();

/** Call `listener` when a request finds that the login is over. */
export const onLoginLost = (listener) => lost.add(listener);

/** A name as one segment of a path: `%DLQ%workers` is `%25DLQ%25workers`. */
export const segment = (text) => encodeURIComponent(text);

/** The address of a path: `topics` is below `/api/v1/`; `/topics/orders:publish` begins at the server's root. */
export function address(path, query = {}) {
  const found = path.startsWith("/") ? new URL(`.${path}`, ROOT) : new URL(`./${path}`, BASE);
  for (const [key, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") found.searchParams.append(key, each);
    }
  }
  return found;
}

/** JSON to a value.  Integers that a number cannot hold exactly become text: offsets survive. */
export function parsed(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(
    text.replace(TOKEN, (token) => (LONG_INTEGER.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token)),
  );
}

/** Ask, and return the answer's value: parsed JSON, or null for an empty answer.  Raises ApiError; an aborted request
 * raises the signal's reason.
 *
 * `body`: a value, sent as JSON; or a string or Blob with `type`.  `raw`: return the Response instead. */
export async function call(method, path, { query, body, type, headers = {}, signal, raw = false, cache = "no-store" } = {}) {
  const sent = { accept: "application/json", "x-entrepot-dashboard": "1", ...headers };
  let content = body;
  if (body !== undefined && body !== null && !type) {
    content = JSON.stringify(body);
    sent["content-type"] = "application/json";
  } else if (type) sent["content-type"] = type;
  const answer = await fetched(address(path, query), { method, headers: sent, body: content, signal, cache });
  if (!answer.ok) throw await refusal(answer);
  if (raw) return answer;
  const text = await whole(answer, signal);
  return text === "" ? null : read(text, answer);
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { ...options, body });
export const put = (path, body, options) => call("PUT", path, { ...options, body });
export const del = (path, options) => call("DELETE", path, options);

async function fetched(url, options) {
  try {
    return await fetch(url, { ...options, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    options.signal?.throwIfAborted();
    throw new ApiError(0, "NO_ANSWER", `${location.host} gave no answer. Check that the gateway runs and can be reached.`);
  }
}

async function whole(answer, signal) {
  try {
    return await answer.text();
  } catch (error) {
    signal?.throwIfAborted();
    throw new ApiError(0, "NO_ANSWER", `${location.host} ended its answer early.`);
  }
}

function read(text, answer) {
  try {
    return parsed(text);
  } catch (error) {
    throw new ApiError(answer.status, "NOT_JSON", "The answer is not JSON. A proxy may have answered instead of the gateway.");
  }
}

/** The ApiError of an answer that is none of success.  Tells those who wait for it where the login is over. */
export async function refusal(answer) {
  let problem = null;
  try {
    problem = parsed(await answer.text());
  } catch (error) {
    // not of the gateway: the status has to say it
  }
  const requestId = problem?.requestId ?? answer.headers.get("x-request-id");
  const code = problem?.code ?? problem?.error?.code ?? (answer.statusText || "REFUSED").toUpperCase().replaceAll(/[^A-Z0-9]+/g, "_");
  const detail = problem?.detail ?? `The server answered ${answer.status} ${answer.statusText}`.trim();
  const found = new ApiError(answer.status, code, detail, { requestId, problem, retryAfter: Number(answer.headers.get("retry-after")) || null });
  if (answer.status === 401 && !answer.url.endsWith("/session")) for (const listener of lost) listener(found);
  return found;
}
