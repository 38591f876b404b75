// The sections of the status page, a function each: from the reports of a daemon, as simmctl --json
// gives them, to the document. What a daemon does not have has no row.
import {
  $, NUMBER, SHORT, count, plural, bytes, duration, rate, percent, set, attribute, show, sync,
  element, fill, table, pairs, latest, has, sumOf, total, grown, perSecond, pagesOf, missed,
  percentile, time,
} from '/figures.js';

const ROWS = 25;    // of daemons at once
const EVENTS = 30;  // the newest ones
const KEYS = 10;    // the hottest ones

const nodesOf = (report) => (report.nodes || []).flatMap((page) => page.nodes || []);
const fullName = (node) => `${node.role}/${node.name}`;

// Troubled ones first.
function rank(node) {
  if (node.state !== 'live') return 0;
  return node.unreached_by > 0 || !node.connected ? 1 : 2;
}

function isReady(status) {
  return !status.cluster || typeof status.cluster !== 'object' || status.cluster.state === 'joined';
}

// A storage daemon has none.
const hasClients = (report) => (report.status || {}).role !== 'storage' && has('engine.batches');

function showHead(report) {
  const status = report.status || {};
  const cluster = typeof status.cluster === 'object' ? status.cluster : {};
  const name = cluster.name || status.name || '';
  set($('title'), `SiMM ${status.role || 'daemon'}${name ? ` ${name}` : ''}`);
  document.title = $('title').textContent;
  const parts = [`version ${status.version}`, `up ${duration((status.uptime_ms || 0) * 1e6)}`];
  const inCluster = cluster.cluster || (typeof status.cluster === 'string' && status.cluster);
  if (inCluster) parts.push(`cluster ${inCluster}`);
  const epoch = cluster.epoch !== undefined ? cluster.epoch : (status.manager || {}).epoch;
  if (epoch !== undefined) parts.push(`epoch ${epoch}`);
  if (status.leads === false) parts.push('stands by');
  set($('who'), parts.join(' · '));
}

function wrongs(report, trouble) {
  const status = report.status || {};
  const cluster = typeof status.cluster === 'object' ? status.cluster : {};
  const manager = status.manager || {};
  const found = [];
  if (status.cluster && !isReady(status)) {
    found.push(`Not in its cluster: ${cluster.state}${cluster.trouble && `, ${cluster.trouble}`}`);
  }
  if (cluster.agents_epoch < cluster.epoch) {
    found.push(`A data agent still uses the map of epoch ${cluster.agents_epoch}`);
  }
  if (status.pool && status.pool.recovery_percent < 100) {
    found.push(`The pool is being read back: ${status.pool.recovery_percent} %`);
  }
  if (manager.cut_off) found.push('The manager hears too few daemons to declare anybody gone');
  if (manager.store_error) found.push(`The map can not be stored: ${manager.store_error}`);
  const bad = nodesOf(report).filter((node) => rank(node) < 2);
  for (const node of bad.slice(0, 8)) {
    const why = node.unreached_by > 0
      ? `, not reached by ${plural(node.unreached_by, 'daemon', 'daemons')}` : '';
    found.push(`${fullName(node)} is ${node.state}${why}`);
  }
  if (bad.length > 8) found.push(`… and ${count(bad.length - 8)} more daemons`);
  const cut = ((report.peers || {}).peers || []).filter((peer) => peer.open < peer.connections);
  for (const peer of cut.slice(0, 8)) {
    found.push(`${peer.name}: ${peer.open} of ${peer.connections} connections are open` +
      (peer.trouble && `, ${peer.trouble}`));
  }
  if (cut.length > 8) found.push(`… and ${count(cut.length - 8)} more connections`);
  for (const nic of report.nics || []) {
    if (nic.rail_trouble) found.push(`RDMA port ${nic.nic}/${nic.port}: ${nic.rail_trouble}`);
  }
  for (const gpu of report.gpus || []) {
    if (gpu.state !== 'running' && gpu.last_error) found.push(`GPU ${gpu.gpu}: ${gpu.last_error}`);
  }
  // Who is in no cluster has no map: that is nothing wrong.
  for (const [part, why] of Object.entries(trouble)) {
    const isOfCluster = ['nodes', 'slots', 'moves'].includes(part);
    if (status.cluster || !isOfCluster) found.push(`${part}: ${why}`);
  }
  return found;
}

function showNow(report) {
  const all = [];
  if (hasClients(report)) {
    const hits = pagesOf('ok');
    const looked = [...hits, ...missed()];
    all.push(['Hit rate, last minute', percent(grown(hits), grown(looked))]);
    all.push(['Pages looked for', rate(perSecond(looked))]);
    all.push(['Got', `${bytes(perSecond(['engine.op.get.bytes']))}/s`]);
    all.push(['Put', `${bytes(perSecond(['engine.op.put.bytes']))}/s`]);
    all.push(['Slowest 1 % of batches', time(percentile('engine.complete_ns', 0.99, true))]);
    all.push(['Clients', total(['session.attached'])]);
  }
  if (has('server.get_pages')) {
    all.push(['Served to all', `${bytes(perSecond(['server.get_bytes']))}/s`]);
    all.push(['Stored', `${bytes(perSecond(['server.put_bytes']))}/s`]);
    all.push(['Evicted', rate(perSecond(['store.evicted']))]);
  }
  const manager = (report.status || {}).manager;
  if (manager) {
    all.push(['Daemons', count(manager.daemons)], ['Owners of slots', count(manager.owners)],
      ['Connections', count(manager.connections)]);
  }
  if (show('now', all.length > 0)) pairs($('now-list'), all);
}

let owners = [];  // what the cells of the map are
let chosen = -1;

function heatOf(owner, mean) {
  const share = $('heat').value === 'slots' ? owner.slots / (2 * mean) : owner.fill;
  return Math.min(9, Math.max(0, Math.round(9 * (share || 0))));
}

function describe(owner) {
  const memory = owner.node
    ? `, ${bytes(owner.node.used_bytes)} of ${bytes(owner.node.weight_bytes)}, ` +
      `${plural(owner.node.objects, 'object', 'objects')}, map ${owner.node.map_epoch}`
    : '';
  return `${owner.name}: ${plural(owner.slots, 'slot', 'slots')}, ` +
    `${owner.percent.toFixed(2)} %${memory}`;
}

function showMap(report) {
  const slots = report.slots || {members: []};
  const byName = new Map(nodesOf(report).map((node) => [fullName(node), node]));
  owners = slots.members.map((member) => {
    const node = byName.get(member.name);
    return {...member, node, fill: node && node.used_bytes / node.weight_bytes};
  });
  if (!show('map-part', owners.length > 0)) return;
  const mean = slots.slots / owners.length;
  attribute($('map'), 'class', owners.length <= 32 ? 'few' : null);
  sync($('map'), owners, element('div'), (cell, owner) => {
    attribute(cell, 'class', `h${heatOf(owner, mean)}`);
    attribute(cell, 'role', 'option');
    attribute(cell, 'aria-label', describe(owner));
  });
  [...$('map').children].forEach((cell, i) => {
    attribute(cell, 'id', `owner-${i}`);
    attribute(cell, 'aria-selected', i === chosen);
  });
  const isOfSlots = $('heat').value === 'slots';
  set($('heat-low'), isOfSlots ? 'none' : 'empty');
  set($('heat-high'), isOfSlots ? 'twice the mean' : 'full');
  choose(Math.min(chosen, owners.length - 1));
}

function choose(index) {
  const cells = $('map').children;
  if (cells[chosen]) attribute(cells[chosen], 'aria-selected', false);
  chosen = index;
  if (!cells[index]) return set($('map-detail'), '');
  attribute(cells[index], 'aria-selected', true);
  attribute($('map'), 'aria-activedescendant', `owner-${index}`);
  return set($('map-detail'), describe(owners[index]));
}

let first = 0;  // of the rows that are shown

function showNodes(report) {
  const all = nodesOf(report);
  const wanted = $('filter').value.trim().toLowerCase();
  const rows = all
    .filter((node) => `${fullName(node)} ${node.state}`.toLowerCase().includes(wanted))
    .sort((a, b) => rank(a) - rank(b) || (fullName(a) < fullName(b) ? -1 : 1));
  first = Math.max(0, Math.min(first, Math.floor((rows.length - 1) / ROWS) * ROWS));
  const page = rows.slice(first, first + ROWS);
  const of = (node, name, text) => ({
    text: text(node[name]), of: `node:${fullName(node)}:${name}`, value: node[name]});
  const newest = (report.nodes[0] || {}).epoch;
  table($('nodes'), [
    ['Daemon', fullName],
    ['State', (node) => ({text: node.connected || node.state !== 'live' ? node.state
      : `${node.state}, not connected`, kind: rank(node) < 2 ? 'bad' : 'good'}), SHORT],
    ['Map', (node) => ({...of(node, 'map_epoch', String),
      kind: node.map_epoch < newest ? 'warn' : ''}), NUMBER],
    ['Slots', (node) => of(node, 'slots', count), NUMBER],
    ['Objects', (node) => of(node, 'objects', count), NUMBER],
    ['Used', (node) => of(node, 'used_bytes', bytes), NUMBER],
    ['Capacity', (node) => of(node, 'weight_bytes', bytes), NUMBER],
    ['Address', (node) => (node.address ? `${node.address}:${node.port}` : '')],
  ], page);
  set($('shown'), rows.length === 0 ? 'none of that name'
    : `${count(first + 1)} to ${count(first + page.length)} of ${count(rows.length)}`);
  $('previous').disabled = first === 0;
  $('next').disabled = first + ROWS >= rows.length;
}

function showMembers(report) {
  const all = nodesOf(report);
  if (!show('members', all.length > 0)) return;
  const states = {};
  for (const node of all) states[node.state] = (states[node.state] || 0) + 1;
  const parts = Object.entries(states).map(([state, n]) => `${count(n)} ${state}`);
  const daemons = plural(all.length, 'daemon', 'daemons');
  set($('members-sum'), `Epoch ${report.nodes[0].epoch}: ${daemons} (${parts.join(', ')})`);
  showMap(report);
  showNodes(report);
}

function showCapacity(report) {
  const owned = nodesOf(report).filter((node) => node.weight_bytes > 0);
  const isHere = has('store.arena_bytes');
  if (!show('capacity', isHere || owned.length > 0)) return;
  const sum = (name) => owned.reduce((all, node) => all + node[name], 0);
  const all = isHere ? latest()['store.arena_bytes'] : sum('weight_bytes');
  const used = isHere ? latest()['store.extent_bytes'] : sum('used_bytes');
  const leased = isHere ? latest()['store.leased_bytes'] : 0;
  const pinned = isHere ? latest()['store.pinned_bytes'] : 0;
  set($('capacity-sum'), `${isHere ? 'This pool' : 'All pools of the cluster'}: ` +
    `${bytes(used)} of ${bytes(all)} in use, ${percent(used, all)}`);
  const parts = [['of-pinned', Math.min(pinned, used)],
    ['of-leased', Math.min(leased, Math.max(0, used - pinned))],
    ['of-used', Math.max(0, used - pinned - leased)]];
  sync($('bar'), parts, element('span'), (span, [name, n]) => {
    attribute(span, 'class', name);
    span.style.width = `${all > 0 ? 100 * n / all : 0}%`;
  });
  attribute($('bar'), 'aria-label', $('capacity-sum').textContent);
  const rows = isHere ? [
    ['In use', total(['store.extent_bytes'], bytes), 'of-used'],
    ['Under a lease', total(['store.leased_bytes'], bytes), 'of-leased'],
    ['Pinned', total(['store.pinned_bytes'], bytes), 'of-pinned'],
    ['Free', total(['store.free_bytes'], bytes), 'of-free'],
    ['Capacity', total(['store.arena_bytes'], bytes)],
    ['Objects', total(['store.objects'])],
    ['Largest free part', total(['store.largest_hole_bytes'], bytes)],
  ] : [
    ['In use', bytes(used), 'of-used'], ['Free', bytes(Math.max(0, all - used)), 'of-free'],
    ['Objects', count(sum('objects'))],
  ];
  pairs($('capacity-list'), rows);
}

// A branch is [text, names of counters, branches]; one whose counters are not here is left out.
const WHY = [
  ['Not found', pagesOf('not_found'), [
    ['Puts that stored nothing',
      ['no_space', 'unreachable', 'wrong_epoch', 'timeout', 'failed'].flatMap(
        (result) => pagesOf(result, ['put']))],
    ['Evicted here', ['store.evicted'], [
      ['for the quota of their tenant', ['store.evicted_for_quota']],
      ['unused for more than 1,000\u00a0s',
        ['store.evicted_by_age.10000s', 'store.evicted_by_age.more']],
    ]],
    ['Expired here', ['store.expired']],
    ['Removed here by clients', ['store.removed']],
    ['Slots moved away from here', ['store.disowned']],
    ['Damaged here', ['store.quarantined']],
    ['Lost inside their lease', ['corrupt', 'lease_budget', 'removed', 'replaced',
      'slot_lost'].map((cause) => `store.lost_in_lease.${cause}`)],
    ['Lost at the restart', ['damaged', 'expired', 'impossible', 'overlapping', 'refused',
      'superseded'].map((cause) => `store.lost_at_recovery.${cause}`)],
  ]],
  ['Of another length than asked for', pagesOf('size_mismatch')],
  ['Owner not reachable', pagesOf('unreachable')],
  ['No answer in time', pagesOf('timeout')],
  ['The map had changed', pagesOf('wrong_epoch')],
  ['Checksum did not match', pagesOf('corrupt')],
  ['Other causes', pagesOf('failed')],
];

const treeRow = () => {
  const row = document.createElement('li');
  const node = document.createElement('div');
  node.append(document.createElement('span'), document.createElement('span'));
  row.append(node, document.createElement('ul'));
  return row;
};

function showBranches(list, branches, all, isTop) {
  sync(list, branches.filter(([, names]) => names.some(has)), treeRow, (row, branch) => {
    const [text, names, inner] = branch;
    const [node, below] = row.children;
    attribute(node, 'class', isTop ? 'node top' : 'node');
    set(node.children[0], text);
    const cell = total(names);
    const share = isTop ? ` (${percent(cell.value, all)})` : '';
    fill(node.children[1], {...cell, text: `${cell.text}${share}`});
    showBranches(below, inner || [], all, false);
    if (below.hidden !== (below.children.length === 0)) below.hidden = !below.hidden;
  });
}

// Beside clients' gets, what a pool is asked: such a daemon has no clients, or others' as well.
const WHY_POOL = [
  ['Found', ['server.get_pages']], ['Not found', ['server.misses'], WHY[0][2].slice(1)],
  ['Of another length than asked for', ['server.size_mismatches']],
  ['The map had changed', ['server.wrong_epoch']], ['Checksum did not match', ['server.corrupt']],
];

function showWhy(report) {
  const isStorage = !hasClients(report);
  if (!show('why', !isStorage || has('server.get_pages'))) return;
  const hits = isStorage ? ['server.get_pages'] : pagesOf('ok');
  const lost = isStorage ? WHY_POOL.slice(1).flatMap(([, names]) => names) : missed();
  const all = sumOf(latest(), [...hits, ...lost]);
  set($('why-sum'), all === 0 ? 'Nothing was looked for yet.'
    : `Of ${plural(all, 'page', 'pages')} looked for since the start, ` +
      `${count(sumOf(latest(), hits))} were found: ${percent(sumOf(latest(), hits), all)}.`);
  showBranches($('why-tree'), isStorage ? WHY_POOL : WHY, all, true);
  set($('why-note'), has('store.evicted') ? '' :
    'What was evicted, and why, the pages of the storage daemons say.');
}

function showTiers(report) {
  const gets = ['get'];
  const rows = [
    {name: 'Node cache', hits: ['shared_reads.hits', 'shared_reads.joined'],
      asked: ['shared_reads.pages'], bytes: ['shared_reads.copied_bytes']},
    {name: 'All gets of clients here', hits: pagesOf('ok', gets),
      asked: [...pagesOf('ok', gets), ...missed(gets)], bytes: ['engine.op.get.bytes']},
    {name: 'This pool, for all who ask', hits: ['server.get_pages'],
      asked: ['server.get_pages', 'server.misses', 'server.size_mismatches'],
      bytes: ['server.get_bytes']},
  ].slice(hasClients(report) ? 0 : -1).filter((row) => row.hits.some(has));
  if (!show('tiers', rows.length > 0)) return;
  const share = (row, names) => percent(names(row.hits), names(row.asked));
  table($('tiers-table'), [
    ['Tier', (row) => row.name],
    ['Asked', (row) => total(row.asked), NUMBER],
    ['Hits', (row) => total(row.hits), NUMBER],
    ['Hit rate', (row) => share(row, (names) => sumOf(latest(), names)), NUMBER],
    ['Last minute', (row) => share(row, grown), NUMBER],
    ['Bytes', (row) => total(row.bytes, bytes), NUMBER],
  ], rows);
}

const STAGES = [['Whole batch', 'engine.complete_ns'], ['validate', 'session.stage.validate_ns'],
  ['queue', 'session.stage.queue_ns'], ['post', 'engine.stage.post_ns'],
  ['wire', 'engine.stage.wire_ns'], ['complete', 'engine.stage.complete_ns']];

function showLatency() {
  const rows = STAGES.filter(([, name]) => percentile(name, 1, false) !== undefined);
  if (!show('latency', rows.length > 0)) return;
  const cell = ([, name], share) => {
    const value = percentile(name, share, false);
    return {text: time(value), of: `percentile:${name}:${share}`, value};
  };
  table($('latency-table'), [
    ['Stage', ([text]) => text, SHORT],
    ['Half', (row) => cell(row, 0.5), NUMBER],
    ['99 %', (row) => cell(row, 0.99), NUMBER],
    ['99.9 %', (row) => cell(row, 0.999), NUMBER],
    ['99 %, last minute', ([, name]) => time(percentile(name, 0.99, true)), NUMBER],
  ], rows);
}

function showTenants(report) {
  const held = new Map((report.store_tenants || []).map((row) => [row.tenant, row]));
  const moved = new Map((report.tenants || []).map((row) => [row.tenant, row]));
  const rows = [...new Set([...moved.keys(), ...held.keys()])]
    .map((name) => ({name, held: held.get(name) || {}, moved: moved.get(name) || {}}));
  if (!show('tenants', rows.length > 0)) return;
  const of = (kind, name, text) => (row) => ({text: row[kind][name] === undefined ? '–'
    : text(row[kind][name]), of: `${kind}:${row.name}:${name}`, value: row[kind][name]});
  table($('tenants-table'), [
    ['Tenant', (row) => row.name],
    ['Clients', of('moved', 'sessions', count), NUMBER],
    ['Got', of('moved', 'got_bytes', bytes), NUMBER],
    ['Put', of('moved', 'put_bytes', bytes), NUMBER],
    ['Waits', of('moved', 'held', count), NUMBER],
    ['Reads found', of('held', 'reads', count), NUMBER],
    ['Hit rate', ({held: {reads = 0, read_misses: misses = 0}}) => percent(reads, reads + misses),
      NUMBER],
    ['Memory', of('held', 'extent_bytes', bytes), NUMBER],
    ['Quota', of('held', 'quota_bytes', bytes), NUMBER],
    ['Evicted', of('held', 'evicted', count), NUMBER],
  ], rows);
}

// This daemon's, and those of members that drain: each once.
function movesOf(report) {
  const status = report.status || {};
  const all = new Map(Object.entries(report.drains || {}));
  if (report.moves && report.moves.state !== 'still') {
    all.set(`${status.role}/${report.moves.daemon}`, report.moves);
  }
  return [...all].map(([name, moves]) => ({...moves, name}));
}

const MOVES_KINDS = {draining: 'warn', moving: 'warn', drained: 'good', 'cut short': 'bad'};

function showMoves(report) {
  const rows = movesOf(report);
  if (!show('moves', rows.length > 0)) return;
  const of = (name, text) => (row) => (row[name] === null ? '–'
    : {text: text(row[name]), of: `moves:${row.name}:${name}`, value: row[name]});
  const wait = (ms) => duration(ms * 1e6);
  table($('moves-table'), [
    ['Daemon', (row) => row.name],
    ['State', (row) => ({kind: MOVES_KINDS[row.state], text: row.lost_objects > 0
      ? `${row.state}, ${plural(row.lost_objects, 'object', 'objects')} lost` : row.state})],
    ['Slots leaving', of('departing_slots', count), NUMBER],
    ['Objects left', of('left_objects', count), NUMBER],
    ['Bytes left', of('left_bytes', bytes), NUMBER],
    ['Moved', of('moved_bytes', bytes), NUMBER],
    ['Done', (row) => percent(row.moved_bytes, row.moved_bytes + row.left_bytes), NUMBER],
    ['A second', of('bytes_per_s', bytes), NUMBER],
    ['To go', of('eta_ms', wait), NUMBER],
    ['Deadline', of('deadline_ms', wait), NUMBER],
  ], rows);
}

function showHot(report, names) {
  const all = (report.hot || {}).keys || [];
  if (!show('hot', all.length > 0)) return;
  const share = (name) => (key) => ({text: `${key[name]} %`, value: key[name],
    of: `hot:${key.key_hash}:${name}`});
  table($('hot-table'), [
    ['Hash of the key', (key) => key.key_hash],
    ...(names ? [['Tenant', (key) => key.tenant], ['Namespace', (key) => key.namespace]] : []),
    ['Shard', (key) => `${key.owner}, ${key.shard}`],
    ['Of requests', share('requests_percent'), NUMBER],
    ['At least', share('requests_percent_min'), NUMBER],
    ['Of bytes', share('bytes_percent'), NUMBER],
    ['Of its shard', share('requests_percent_of_shard'), NUMBER],
  ], all.slice(0, KEYS));
  set($('hot-note'), `The hottest ${KEYS} at most of the last minutes; simmctl hot has more.` +
    (names ? '' : ' Whose they are is shown with metrics.token_file alone.'));
}

function showPeers(report) {
  const all = (report.peers || {}).peers || [];
  if (!show('peers', all.length > 0)) return;
  const lack = (peer) => peer.connections - peer.open + peer.queue_pairs - peer.queue_pairs_open;
  const open = all.filter((peer) => lack(peer) === 0).length;
  set($('peers-sum'), `${count(open)} of ${plural(all.length, 'daemon', 'daemons')} with all ` +
    'connections open');
  const rows = [...all].sort((a, b) => lack(b) - lack(a) || (a.name < b.name ? -1 : 1));
  table($('peers-table'), [
    ['Daemon', (peer) => peer.name],
    ['Open', (peer) => ({text: `${peer.open} of ${peer.connections}`, value: peer.open,
      of: `peer:${peer.name}:open`, kind: peer.open < peer.connections ? 'bad' : 'good'}), NUMBER],
    ['By', (peer) => peer.transport, SHORT],
    ['Queue pairs', (peer) => (peer.queue_pairs === 0 ? '–'
      : `${peer.queue_pairs_open} of ${peer.queue_pairs}`), NUMBER],
    ['Address', (peer) => peer.address],
    ['Trouble', (peer) => [peer.trouble, peer.queue_pairs_trouble].filter(Boolean).join('; ')],
  ], rows.slice(0, ROWS));
  if (rows.length > ROWS) {
    set($('peers-sum'), `${$('peers-sum').textContent}; the first ${ROWS}, troubled ones first`);
  }
}

function showDevices(report) {
  const nics = report.nics || [];
  if (show('nics', nics.length > 0)) {
    table($('nics-table'), [
      ['Port', (nic) => `${nic.nic}/${nic.port}`],
      ['Link', (nic) => ({text: `${nic.state}, ${nic.link}`,
        kind: nic.state === 'active' ? 'good' : 'bad'})],
      ['Speed', (nic) => `${(nic.mbit_s / 1000).toFixed(0)} Gbit/s`, NUMBER],
      ['Used', (nic) => (nic.used ? nic.rail_state || 'yes' : ['no', nic.left_out]
        .filter(Boolean).join(': '))],
      ['Registered', (nic) => ({text: bytes(nic.registered_bytes), value: nic.registered_bytes,
        of: `nic:${nic.nic}/${nic.port}:registered_bytes`}), NUMBER],
      ['Of', (nic) => bytes(nic.wanted_bytes), NUMBER],
      ['Trouble', (nic) => [nic.problem, nic.rail_trouble].filter(Boolean).join('; ')],
    ], nics);
  }
  const gpus = report.gpus || [];
  if (!show('gpus', gpus.length > 0)) return;
  table($('gpus-table'), [
    ['GPU', (gpu) => `${gpu.gpu}: ${gpu.model}`],
    ['Helper', (gpu) => gpu.state, SHORT],
    ['Regions', (gpu) => count(gpu.regions), NUMBER],
    ['Mapped', (gpu) => bytes(gpu.mapped_bytes), NUMBER],
    ['Copied out', (gpu) => bytes(gpu.bytes_out), NUMBER],
    ['Copied in', (gpu) => bytes(gpu.bytes_in), NUMBER],
    ['Failed', (gpu) => count(gpu.failed + gpu.lost), NUMBER],
    ['Last error', (gpu) => gpu.last_error],
  ], gpus);
}

function showEvents(report, names) {
  const all = [...((report.events || {}).events || [])].reverse().slice(0, EVENTS);
  if (show('events', all.length > 0)) {
    table($('events-table'), [
      ['Time (UTC)', (event) => event.time.replace('T', ' ').replace('Z', ''), SHORT],
      ['Severity', (event) => ({text: event.severity,
        kind: {error: 'bad', warning: 'warn'}[event.severity] || ''}), SHORT],
      ['What', (event) => event.kind, SHORT],
      ['About', (event) => event.subject],
      ['', (event) => event.text + (event.left_out > 0 ? ` (${event.left_out} left out)` : '')],
    ], all);
    set($('events-note'), `The newest ${EVENTS} at most; simmctl events has more.` + (names ? '' :
      ' What may name a tenant or a client is shown with metrics.token_file alone.'));
  }
  const errors = (report.errors || {}).errors || [];
  if (!show('errors', errors.length > 0)) return;
  table($('errors-table'), [
    ['Times', (error) => count(error.count), NUMBER],
    ['Last', (error) => `${duration(error.last_ms_ago * 1e6)} ago`, NUMBER],
    ['Where', (error) => error.site],
    ['What', (error) => error.text],
  ], errors);
}

let shown;  // the reports that are shown

export function render(answer) {
  const report = answer.reports;
  shown = report;
  showHead(report);
  const wrong = wrongs(report, answer.trouble);
  if (show('wrong', wrong.length > 0)) sync($('wrong-list'), wrong, element('li'), set);
  showNow(report);
  showMembers(report);
  showCapacity(report);
  showWhy(report);
  showTiers(report);
  showLatency();
  showTenants(report);
  showMoves(report);
  showHot(report, answer.names);
  showPeers(report);
  showDevices(report);
  showEvents(report, answer.names);
}

const redraw = () => shown && showMembers(shown);
const turn = (by) => {
  first += by;
  redraw();
};
$('heat').addEventListener('change', redraw);
$('filter').addEventListener('input', redraw);
$('previous').addEventListener('click', () => turn(-ROWS));
$('next').addEventListener('click', () => turn(ROWS));
$('map').addEventListener('pointerover', (event) => {
  const index = [...$('map').children].indexOf(event.target);
  if (index >= 0) choose(index);
});
$('map').addEventListener('keydown', (event) => {
  const columns = getComputedStyle($('map')).gridTemplateColumns.split(' ').length;
  const steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns,
    Home: -owners.length, End: owners.length};
  if (steps[event.key] === undefined) return;
  event.preventDefault();
  choose(Math.max(0, Math.min(owners.length - 1, chosen + steps[event.key])));
  $('map').children[chosen].scrollIntoView({block: 'nearest'});
});
