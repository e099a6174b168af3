// The start: who is logged in decides between the login page and the frame.

import { ApiError, onLoginLost } from "./api.js";
import { fill, h } from "./dom.js";
import { showFrame, tellLoginOver } from "./frame.js";
import { showLogin, showLoginDialog } from "./pages/login.js";
import { failure } from "./parts/answers.js";
import { loadOperations } from "./parts/operations.js";
import { isIn, loadSession } from "./session.js";
import { overviewStream } from "./stream.js";
import { applyTheme } from "./choices.js";

async function start() {
  try {
    await Promise.all([loadSession(), loadOperations()]);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    document.title = "Entrepôt";
    document.body.className = "";
    fill(document.body, h("main.main", h("h1", "Entrepôt"), failure("The dashboard did not start", error, { again: start })));
    return;
  }
  if (isIn()) {
    onLoginLost(() => isRefused || logInAgain());
    showFrame(logIn);
  } else showLogin(start);
}

// True after the question to log in again was closed: from then on only the notice asks.
let isRefused = false;

async function logInAgain() {
  isRefused = !(await showLoginDialog({ isOver: true }));
  tellLoginOver(isRefused ? logInAgain : null);
  if (!isRefused) overviewStream.retry();
}

async function logIn() {
  if (await showLoginDialog({ isOver: false })) location.reload();
}

applyTheme();
start();
