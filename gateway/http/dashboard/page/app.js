// The start: who is logged in decides between the login page and the frame.

import { ApiError, onLoginLost } from "./api.js";
import { fill, h } from "./dom.js";
import { showFrame } from "./frame.js";
import { showLogin, showLoginDialog } from "./pages/login.js";
import { failure } from "./parts/answers.js";
import { isIn, loadSession } from "./session.js";
import { overviewStream } from "./stream.js";
import { applyTheme } from "./choices.js";

applyTheme();
start();

async function start() {
  try {
    await loadSession();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    document.title = "Entrepôt";
    document.body.className = "";
    fill(document.body, h("main.main", h("h1", "Entrepôt"), failure("The gateway does not tell who is logged in", error, { again: start })));
    return;
  }
  if (isIn()) {
    onLoginLost(() => showLoginDialog(() => overviewStream.retry()));
    showFrame();
  } else showLogin(start);
}
