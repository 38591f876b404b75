// What the sections of the status page are made with: numbers as words, the document, and the
// counters of a daemon over the last minute. All names come from others, so they are only ever text
// (textContent), never markup.

const RECENT_MS = 60000;  // "the last minute"

export const $ = (id) => document.getElementById(id);

// ---- words and numbers ----

const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
export const count = (n) => whole.format(n);
export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;

export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(n) : n.toFixed(1)} ${units[unit]}`;
}

export function duration(ns) {
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(1)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(1)} ms`;
  if (ns < 120e9) return `${(ns / 1e9).toFixed(1)} s`;
  const minutes = Math.floor(ns / 60e9);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function rate(n) {
  if (n >= 100) return `${count(n)}/s`;
  return n === 0 ? '0/s' : `${n < 0.1 ? '< 0.1' : n.toFixed(1)}/s`;
}

export const percent = (part, all) => (all > 0 ? `${(100 * part / all).toFixed(1)} %` : '–');

// ---- putting words into the document ----

// Controls, and marks that turn the direction of the words around them: shown as their numbers.
const STRANGE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
// A page that is fluid whatever others say: of a text nobody reads to its end the beginning.
const TEXT_MAX = 1000;
const beginning = (text) => (text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)} …` : text);
const plain = (text) => beginning(String(text)).replace(
  STRANGE, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);

export function set(node, text) {
  const wanted = plain(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

export function attribute(node, name, value) {
  if (value === undefined || value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

export function show(id, is) {
  if ($(id).hidden === is) $(id).hidden = !is;
  return is;
}

// As many children as there are items. Those that stay are changed, so focus and selection stay.
export function sync(parent, items, create, update) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  while (parent.children.length < items.length) parent.append(create());
  items.forEach((item, i) => update(parent.children[i], item));
}

export const element = (name) => () => document.createElement(name);

// A cell is a text, or {text, of, value, kind}: `of` says which figure of the JSON it shows.
export function fill(node, cell, className) {
  const given = typeof cell === 'object' ? cell : {text: cell};
  set(node, given.text);
  attribute(node, 'class', [className, given.kind].filter(Boolean).join(' ') || null);
  attribute(node, 'data-of', given.of);
  attribute(node, 'data-value', given.value);
}

// columns: [label, row => cell, kind]. The kind is NUMBER, SHORT for words of ours, which stay on a
// line, or nothing for words of others.
export const NUMBER = 'number';
export const SHORT = 'short';

export function table(node, columns, rows) {
  if (!node.tHead) {
    node.createTHead().insertRow();
    node.createTBody();
  }
  sync(node.tHead.rows[0], columns, element('th'), (head, [label, , kind]) => {
    set(head, label);
    attribute(head, 'scope', 'col');
    attribute(head, 'class', kind);
  });
  sync(node.tBodies[0], rows, element('tr'), (line, row) => {
    sync(line, columns, element('td'), (cell, [label, of, kind]) => {
      fill(cell, of(row), kind);
      attribute(cell, 'data-label', label);
    });
  });
}

const pair = () => {
  const group = document.createElement('div');
  group.append(document.createElement('dt'), document.createElement('dd'));
  return group;
};

// all: [term, cell, class of a colour].
export function pairs(node, all) {
  sync(node, all, pair, (group, [term, cell, colour]) => {
    const [name, figure] = group.children;
    if (name.textContent !== term) {
      const key = document.createElement('span');
      key.className = `key ${colour}`;
      name.replaceChildren(...(colour ? [key] : []), term);
    }
    fill(figure, cell);
  });
}

// ---- counters ----

let history = [];  // {at, totals}, the newest one last

export function remember(report) {
  const totals = report.totals || {};
  const id = `${report.status && report.status.pid}`;
  if (history.length > 0 && history[0].id !== id) history = [];  // another life of the daemon
  history.push({at: performance.now(), totals, id});
  while (history.length > 2 && history[1].at < performance.now() - RECENT_MS) history.shift();
}

export const latest = () => history[history.length - 1].totals;
export const has = (name) => latest()[name] !== undefined;
export const sumOf = (totals, names) => names.reduce((sum, name) => sum + (totals[name] || 0), 0);

// What these counters have together, as a cell.
export function total(names, text = count) {
  const there = names.filter(has);
  const value = sumOf(latest(), there);
  return {text: text(value), of: `totals:${there.join('+')}`, value};
}

export const grown = (names) =>
  Math.max(0, sumOf(latest(), names) - sumOf(history[0].totals, names));
const seconds = () => (history[history.length - 1].at - history[0].at) / 1000;
export const perSecond = (names) => (seconds() > 0 ? grown(names) / seconds() : 0);

const OPS = ['get', 'exists'];
export const pagesOf = (result, ops = OPS) => ops.map((op) => `engine.op.${op}.pages.${result}`);
const MISSES = ['not_found', 'size_mismatch', 'corrupt', 'unreachable', 'wrong_epoch', 'timeout',
  'failed'];
export const missed = (ops = OPS) => MISSES.flatMap((result) => pagesOf(result, ops));

// The upper end of the class that has the `share` of all; nothing without any.
export function percentile(name, share, isRecent) {
  const classes = [];
  for (let i = 0; i < 40; i += 1) {
    const key = `${name}.log2_${String(i).padStart(2, '0')}`;
    const before = isRecent ? history[0].totals[key] || 0 : 0;
    classes.push(Math.max(0, (latest()[key] || 0) - before));
  }
  const all = classes.reduce((sum, n) => sum + n, 0);
  if (all === 0) return undefined;
  const rank = Math.ceil(share * all);
  let seen = 0;
  return 2 ** classes.findIndex((n) => (seen += n) >= rank && seen > 0);
}

export const time = (ns) => (ns === undefined ? '–' : duration(ns));
