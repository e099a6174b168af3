// The login: name and password, or the one-time token while no user exists.

import { ApiError } from "../api.js";
import { fill, h, name, s } from "../dom.js";
import { mark } from "../frame.js";
import { banner } from "../parts/banner.js";
import { openDialog } from "../parts/dialog.js";
import { logIn, session } from "../session.js";

const DOORS = [["mqtt", "MQTT", 101], ["amqp", "AMQP", 207], ["rmq", "RocketMQ", 313], ["http", "HTTP", 419]];
const CUTS = "M70 262h2v18h-2zM118 262h2v18h-2zM131 262h2v18h-2zM176 262h2v18h-2zM240 262h2v18h-2zM262 262h2v18h-2zM301 262h2v18h-2zM355 262h2v18h-2zM372 262h2v18h-2zM420 262h2v18h-2zM447 262h2v18h-2z";

/** Show the login page in place of everything; `done()` is called when somebody is logged in. */
export function showLogin(done) {
  const { cluster, gateway, version } = session();
  document.title = `Log in · ${cluster} · Entrepôt`;
  document.body.className = "";
  const side = h("section.side", { "aria-label": "Entrepôt" }, h("p.brand", mark(), "Entrepôt"), house(), h("p.s.q2", name(cluster), " · gateway ", name(gateway), " · ", version));
  const { element, focus } = loginForm(h("h1", "Log in to ", name(cluster)), done);
  fill(document.body, h("main.gate", side, h("section.form-side", element)));
  focus();
}

let open = null;

/** Ask to log in above the page, which keeps what was typed.  `isOver`: somebody was logged in.  The promise of true where
 * somebody is logged in then. */
export function showLoginDialog({ isOver }) {
  open ??= askAbove(isOver).finally(() => (open = null));
  return open;
}

async function askAbove(isOver) {
  let isIn = false;
  const over = isOver ? banner("bad", "Your login is over.", "What you typed stays on this page.") : null;
  const { element, focus } = loginForm(over, () => {
    isIn = true;
    dialog.close();
  });
  const dialog = openDialog(isOver ? "Log in again" : "Log in", element);
  focus();
  await dialog.closed;
  return isIn;
}

function house() {
  const doors = DOORS.map(([kind, label, x]) => [
    s(`g.${kind}`, s("path.leaf", { d: `M${x - 39} 226v-70q0-26 39-26t39 26v70z` }), s("path.way", { d: `M${x} 230v28` })),
    s("text", { x, y: 318, "text-anchor": "middle" }, label),
  ]);
  const picture = { viewBox: "0 0 520 330", role: "img", "aria-label": "Four doors, MQTT, AMQP, RocketMQ and HTTP, lead into one log" };
  return s("svg.house", picture, s("path.roof", { d: "M20 112 260 26l240 86" }), doors, s("rect.tape", { x: 40, y: 262, width: 440, height: 18, rx: 2 }), s("path.cut", { d: CUTS }));
}

function loginForm(top, done) {
  const { setupNeeded, tls } = session();
  const wrong = h("div", { role: "alert" });
  const user = h("input", { id: "name", name: "user", autocomplete: "username", required: true, spellcheck: "false" });
  const password = h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password", required: true });
  const token = h("input.mono", { id: "token", name: "token", autocomplete: "off", spellcheck: "false" });
  const button = h("button.primary", "Log in");
  const byToken = () => token.value.trim() !== "";
  const element = h(
    "form.box",
    { method: "post", novalidate: true },
    top,
    wrong,
    h("p.field", h("label", { for: "name" }, "User"), user),
    h("p.field", h("label", { for: "password" }, "Password"), password),
    button,
    h("p.hint", "The login holds on every gateway. A change of your password or rights ends it."),
    h("details.s", { open: setupNeeded }, h("summary", "No user exists yet?"), h("p.field.pad2", h("label", { for: "token" }, "One-time token of the start"), token, h("span.hint", "The server wrote it to its log and to the file setup-token when it started. It works until the first user exists."))),
    !tls && banner("warn", "This connection is not encrypted.", "Your password can be read on the way. Put TLS in front of the gateway."),
  );
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!byToken() && !(user.value && password.value)) {
      complain(wrong, user.value ? password : user, "Name and password are needed.", "Or the one-time token, while no user exists.");
      return;
    }
    button.disabled = true;
    fill(wrong);
    try {
      await logIn(byToken() ? { token: token.value.trim() } : { name: user.value, password: password.value });
      done();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const [fact, meaning] = words(error, byToken());
      complain(wrong, byToken() ? token : password, fact, meaning);
    } finally {
      button.disabled = false;
    }
  });
  return { element, focus: () => (setupNeeded ? token : user).focus() };
}

function complain(wrong, input, fact, meaning) {
  fill(wrong, banner("bad", fact, meaning));
  input.setAttribute("aria-invalid", "true");
  input.focus();
  input.select();
}

function words(error, isByToken) {
  if (error.status === 401) return [isByToken ? "The token is wrong." : "Name or password is wrong.", error.message];
  if (error.status === 429) return ["Too many tries.", error.retryAfter ? `Try again in ${error.retryAfter} s.` : error.message];
  if (error.status === 403) return ["The login is not allowed.", error.message];
  return ["The login failed.", `${error.message} ${error.status || ""} ${error.code}`];
}
