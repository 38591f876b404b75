// The status page: asks /status.json every two seconds while somebody looks, and shows the answer.
import {$, set, attribute, show, remember} from '/figures.js';
import {render} from '/sections.js';

const POLL_MS = 2000;
const POLL_MS_MAX = 30000;
const ANSWER_MS_MAX = 10000;
const TOKEN = 'simm-token';

let timer;
let failures = 0;
let isAsking = false;
let answeredAt;

const clock = (date) => date.toLocaleTimeString('en-GB');

function later(ms) {
  clearTimeout(timer);
  timer = setTimeout(poll, ms);
}

function askForToken(why) {
  show('ask', true);
  show('forget', false);
  set($('token-state'), why);
  set($('state'), 'A token is asked for');
  if (document.activeElement === document.body) $('token').focus();
}

async function ask() {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  const reply = await fetch('/status.json', {
    headers, cache: 'no-store', credentials: 'omit', redirect: 'error',
    signal: AbortSignal.timeout(ANSWER_MS_MAX)});
  if (reply.status === 401) {
    sessionStorage.removeItem(TOKEN);
    return {asksFor: token ? 'This is not the token.' : ''};
  }
  if (!reply.ok) throw new Error((await reply.text()).trim() || `status ${reply.status}`);
  return reply.json();
}

async function poll() {
  if (document.hidden || isAsking) return;
  isAsking = true;
  try {
    const answer = await ask();
    if (answer.asksFor !== undefined) return askForToken(answer.asksFor);
    failures = 0;
    answeredAt = new Date();
    remember(answer.reports);
    show('ask', false);
    show('again', false);
    show('forget', sessionStorage.getItem(TOKEN) !== null);
    attribute($('state'), 'class', null);
    render(answer);
    set($('state'), `As of ${clock(answeredAt)}`);
    return later(POLL_MS);
  } catch (error) {
    failures += 1;
    const wait = Math.min(POLL_MS_MAX, POLL_MS * 2 ** failures);
    const since = answeredAt ? ` since ${clock(answeredAt)}; what is shown is of then` : '';
    const why = error.name === 'TimeoutError' ? 'it does not answer' : error.message;
    attribute($('state'), 'class', 'bad');
    set($('state'), `No answer${since}. ${why}. Next try in ${wait / 1000} s`);
    show('again', true);
    return later(wait);
  } finally {
    isAsking = false;
  }
}

$('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, $('token').value.trim());
  $('token').value = '';
  poll();
});
$('forget').addEventListener('click', () => {
  sessionStorage.removeItem(TOKEN);
  location.reload();
});
$('again').addEventListener('click', poll);
document.addEventListener('visibilitychange', () => {
  clearTimeout(timer);
  poll();
});

poll();
