#!/usr/bin/env python3
"""The status page in a real browser: figures, hostile names, widths, colours, keys, many members.

browser_test.py BIN_DIR [PICTURE_DIR]: leaves pictures there, for people to look at.
"""
import copy
import http.server
import json
import pathlib
import random
import re
import subprocess
import sys
import threading
import time
import unittest

from browser import Browser, program
from cluster import ROLES, Cluster
from page_figures import byte_text, figure, time_text

BIN = pathlib.Path(sys.argv[1])
PICTURES = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
CHECKS = (pathlib.Path(__file__).parent / "page_checks.js").read_text(encoding="utf-8")
TOKEN = "0123456789abcdef0123456789abcdef"
MEMBERS = 1000
FIRST_PAINT_MS_MAX = 500
ELEMENTS_MAX = 6000
SHOWN = "document.querySelector('#state')?.textContent.startsWith('As of')"
HOSTILE = ('<img src=x onerror="hacked=1">', '<script>hacked=1</script>', '"><svg onload=hacked=1>',
           "{{constructor.constructor('hacked=1')()}}", "javascript:hacked=1", "&lt;b&gt;&amp;",
           "\u202egnp.exe\u0007", "__proto__", "constructor", "x" * 200, "a\nb")


class Case(unittest.TestCase):
    metrics = None
    of_node = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN, cls.metrics, cls.of_node)
        cls.addClassCleanup(cls.cluster.stop)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        for i in range(20):
            cls.cluster.object("put", f"key-{i}", b"x" * 50_000)
            cls.cluster.object("get", f"key-{i}")
        cls.cluster.object("get", "no-such-key")

    def setUp(self):
        self.page = self.browser.page()
        self.page.size(1440)

    def url(self, role="node", host="127.0.0.1"):
        return f"http://{host}:{self.cluster.address[role].rsplit(':', 1)[1]}"

    def open(self, role="node"):
        self.page.open(self.url(role) + "/")
        self.page.until(SHOWN)

    def now(self):
        return self.page.run("fetch('/status.json').then((answer) => answer.json())")

    def show(self, answer):
        """Has the page show this answer from now on."""
        self.page.answer_with(lambda: json.dumps(answer))
        self.open()

    def picture(self, name):
        if PICTURES:
            PICTURES.mkdir(exist_ok=True)
            self.page.picture(PICTURES / f"{name}.png")

    def wrong_figures(self, reports, least):
        """What the page shows otherwise than these reports say."""
        shown = self.page.run("[...document.querySelectorAll('[data-of]')].map((node) => "
                              "[node.dataset.of, node.dataset.value, node.textContent])")
        wrong = [] if len(shown) >= least else [f"only {len(shown)} figures"]
        for of, value, text in shown:
            expected = figure(reports, of)
            texts = (f"{expected:,}", byte_text(expected), str(expected))
            if of.startswith("percentile:"):
                texts = (time_text(expected),)
            elif of.endswith("_ms"):
                texts = (time_text(expected * 1e6),)
            elif of.endswith("_percent") or "_percent_" in of:
                texts = (f"{expected:g} %",)
            if float(value) != expected or not text.startswith(texts):
                wrong.append((of, value, text, expected))
        return wrong

    def check_figures(self, reports, least):
        self.assertEqual(self.wrong_figures(reports, least), [])

    def check_looks(self, width, theme):
        self.page.size(width)
        self.page.theme(theme)
        found = self.page.run(CHECKS)
        self.assertGreater(found["texts"], 20)
        for what in ("cut", "broken", "overlapping", "pale"):
            self.assertEqual(found[what][:5], [], f"{what} at {width} px, {theme}")

    def check_quiet(self):
        self.page.look()
        self.assertEqual(self.page.complaints, [])


class Shown(Case):
    """Daemons without a token."""

    def test_figures_are_those_of_the_answer_and_of_simmctl(self):
        for role, least in (("node", 29), ("storage", 30), ("manager", 10)):
            self.open(role)
            self.page.until("document.querySelectorAll('#nodes tbody tr').length === 2")
            # Leases end and threads turn by themselves: a moment in which nothing of what is shown
            # moves comes after a while.
            for _ in range(10):
                totals = json.loads(self.cluster.ctl(role, "--json", "totals").stdout)
                asked = len(self.page.headers)
                while len(self.page.headers) == asked:
                    self.page.look(0.05)
                self.page.until(SHOWN)
                answer = self.now()
                wrong = [self.wrong_figures(answer["reports"], least),
                         self.wrong_figures({**answer["reports"], "totals": totals}, least)]
                if wrong == [[], []]:
                    break
            self.assertEqual(wrong, [[], []], role)
            if role == "node":  # 20 puts and gets, each with a question before it, and a miss
                self.assertIn("40 were found: 97.6 %", self.page.run("document.body.textContent"))
            self.check_quiet()

    def test_the_tree_adds_up(self):
        for role, causes, part in (("node", "engine.op.get.pages. engine.op.exists.pages.", ".ok"),
                                   ("storage", "server.", "")):
            self.page.answer_with(None)
            self.open(role)
            answer = self.now()
            totals = answer["reports"]["totals"]
            found = [name for name in totals if name.startswith(tuple(causes.split()))]
            if role == "storage":
                found = ["server.get_pages", "server.misses", "server.size_mismatches",
                         "server.wrong_epoch", "server.corrupt"]
            for i, name in enumerate(found):
                totals[name] = 1 << i
            self.show(answer)
            shown = self.page.run("[...document.querySelectorAll('.node.top > span:last-child')]"
                                  ".map((node) => Number(node.dataset.value))")
            self.assertEqual(sum(shown), sum(totals[name] for name in found
                                             if not part or not name.endswith(part)), role)

    def test_each_role_has_its_sections_and_no_empty_ones(self):
        sections = {}
        self.cluster.object("put", "hot", b"x" * 3_000_000)  # a use that the sketch sees
        for role in ROLES:
            self.open(role)
            self.page.until("!document.querySelector('#members').hidden")
            sections[role] = self.page.run(
                "[...document.querySelectorAll('section')].filter((s) => !s.hidden)"
                ".map((s) => s.id)")
            self.check_quiet()
        self.assertEqual(sections["manager"], ["now", "members", "capacity", "events"])
        self.assertEqual(sections["storage"], ["now", "members", "capacity", "why", "tiers",
                                               "hot", "events"])
        self.assertEqual(sections["node"], ["now", "members", "capacity", "why", "tiers",
                                            "latency", "peers", "events"])

    def test_first_paint_is_quick_and_the_page_is_small(self):
        paints = []
        for _ in range(5):  # the quickest: the machine may be busy with something else
            self.open("node")
            paints.append(self.page.until(
                "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"))
            loaded = self.page.run("performance.getEntriesByType('resource').concat("
                                   "performance.getEntriesByType('navigation')).filter((e) => "
                                   "!e.name.includes('status.json')).reduce((n, e) => "
                                   "n + e.decodedBodySize, 0)")
        self.assertLess(min(paints), FIRST_PAINT_MS_MAX, paints)
        self.assertLess(loaded, 100_000)
        self.assertGreater(loaded, 20_000)

    def test_other_sites_get_nothing(self):
        # A name of the attacker that leads to this host.
        self.page.open(self.url(host="evil.localhost") + "/")
        self.page.until("document.body?.textContent.includes('Host header')")
        self.assertIsNone(self.page.run("document.querySelector('#nodes')"))
        # Another site, which asks by the right name.
        class Evil(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>evil</title>")

            def log_message(self, *arguments):
                pass

        evil = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        self.addCleanup(evil.server_close)
        self.addCleanup(evil.shutdown)
        self.page.open(f"http://127.0.0.1:{evil.server_port}/")
        self.page.until("document.title === 'evil'")
        for mode in ("cors", "no-cors"):
            got = self.page.run(f"fetch('{self.url()}/status.json', {{mode: '{mode}'}})"
                                ".then((a) => a.text(), () => 'refused')")
            self.assertIn(got, ("refused", ""), mode)
        frame = (f"new Promise((is) => {{ const frame = document.createElement('iframe'); "
                 f"frame.src = '{self.url()}/'; frame.onload = () => is(frame.contentDocument); "
                 "document.body.append(frame); })")
        self.assertIsNone(self.page.run(frame))
        self.page.run(f"document.body.append(Object.assign(document.createElement('script'), "
                      f"{{src: '{self.url()}/page.js', type: 'module'}}))")
        said = ""
        end = time.monotonic() + 30
        while "frame-ancestors" not in said and time.monotonic() < end:
            self.page.look(0.05)
            said = json.dumps([str(complaint) for complaint in self.page.complaints])
        self.assertIn("frame-ancestors", said)

    def test_the_policy_stops_what_the_page_would_not_do(self):
        self.open()
        self.page.run("document.body.insertAdjacentHTML('beforeend', "
                      "'<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>')")
        self.page.run("(() => { const s = document.createElement('script'); "
                      "s.textContent = 'window.hacked=1'; document.body.append(s); })()")
        for _ in range(20):
            self.page.look(0.05)
        self.assertIsNone(self.page.run("window.hacked"))
        self.assertIn("Content Security Policy", json.dumps(
            [str(complaint) for complaint in self.page.complaints]))

    def full(self, names):
        """An answer with all there is, of which every name is one of these."""
        self.open("node")
        answer = self.now()
        reports = answer["reports"]
        self.open("storage")
        storage = self.now()["reports"]
        reports["totals"].update(storage["totals"])
        reports["status"]["cluster"].update(state="searching", trouble=names[0])
        node = reports["nodes"][0]["nodes"][1]
        reports["nodes"] = [dict(reports["nodes"][0], nodes=[
            dict(copy.deepcopy(node), name=name, state="away" if i % 3 == 0 else "live",
                 address=name, used_bytes=i * 1e11, weight_bytes=1e12 + i, unreached_by=i % 2)
            for i, name in enumerate(names)])]
        slots = reports["slots"]["members"][0]
        reports["slots"]["members"] = [dict(slots, name=f"storage/{name}", slots=100 * i)
                                       for i, name in enumerate(names)]
        peer = reports["peers"]["peers"][0]
        reports["peers"]["peers"] = [dict(peer, name=name, trouble=name, address=name,
                                          open=i % 3, queue_pairs=2, queue_pairs_trouble=name)
                                     for i, name in enumerate(names)]
        moves = dict(storage["moves"], state="draining", slots=1234, departing_slots=77,
                     left_objects=123456789, left_bytes=5e11, moved_bytes=7e11, bytes_per_s=9e9,
                     eta_ms=55_600, deadline_ms=119_000, lost_objects=12345)
        reports["drains"] = {f"storage/{name}": dict(moves, eta_ms=None if i % 2 else 55_600)
                             for i, name in enumerate(names[:8])}
        reports["hot"] = {"keys": [
            {"key_hash": f"{i:016x}" * 2, "tenant": name, "namespace": name, "owner": name,
             "shard": i, "requests_percent": 12.34, "requests_percent_min": 0.5,
             "requests_percent_of_shard": 100.0, "bytes_percent": 99.99}
            for i, name in enumerate(names)]}
        answer["names"] = True
        event = reports["events"]["events"][0]
        reports["events"]["events"] = [dict(event, subject=name, text=name, kind="map_not_stored",
                                            severity="error") for name in names]
        reports["tenants"] = [{"tenant": name, "sessions": 1, "got_bytes": 2e12, "put_bytes": 3,
                               "held": 4} for name in names]
        reports["store_tenants"] = [
            {"tenant": name, "reads": 123456789012, "read_misses": 6, "extent_bytes": 7e15,
             "quota_bytes": 8, "evicted": 9} for name in names]
        reports["errors"] = {"errors": [{"site": name, "text": name, "count": 12345,
                                         "last_ms_ago": 99999999} for name in names]}
        reports["nics"] = [{"nic": name, "port": 1, "state": "down", "link": name, "mbit_s": 400000,
                            "used": i % 2 == 0, "rail_state": name, "rail_trouble": name,
                            "left_out": name, "problem": name, "registered_bytes": 9e12,
                            "wanted_bytes": 1e13} for i, name in enumerate(names[:4])]
        reports["gpus"] = [{"gpu": i, "model": name, "state": "hung", "regions": 1,
                            "mapped_bytes": 8e10, "bytes_out": 1, "bytes_in": 2, "failed": 3,
                            "lost": 4, "last_error": name} for i, name in enumerate(names[:4])]
        answer["trouble"] = dict.fromkeys(names, names[0])
        return answer

    def test_hostile_names_are_text(self):
        answer = self.full(HOSTILE)
        self.page.complaints.clear()
        self.show(answer)
        for section in ("wrong", "members", "moves", "hot", "peers", "nics", "gpus", "tenants",
                        "errors", "events"):
            self.assertFalse(self.page.run(f"document.querySelector('#{section}').hidden"), section)
        self.page.run("document.querySelector('#map').focus()")
        self.page.key("End")
        for _ in range(20):
            self.page.look(0.05)
        self.assertIsNone(self.page.run("window.hacked"))
        self.assertEqual(self.page.run("document.images.length"), 1)
        self.assertEqual(self.page.run("document.scripts.length"), 1)
        self.assertEqual(self.page.run("document.querySelectorAll('svg, iframe, b').length"), 0)
        self.assertEqual(self.page.run("document.querySelectorAll('a').length"), 1)
        shown = self.page.run("document.body.textContent")
        for name in HOSTILE:  # marks that would turn the words around them are shown as numbers
            self.assertIn(re.sub("[\u202e\x00-\x1f]", lambda c: f"\\u{ord(c[0]):04x}", name), shown)
        self.assertNotRegex(shown, "[\u202a-\u202e\x07]")
        self.check_figures(answer["reports"], 50)
        self.check_quiet()

    def test_it_can_be_read_at_every_width_in_both_themes(self):
        names = ("storage-1", "a-name-of-sixty-four-letters-which-is-the-longest-one-there-is-0",
                 "w" * 64, "rack-17.room-3.example.com")
        for kind, answer in (("full", self.full(names)), ("hostile", self.full(HOSTILE))):
            self.page.complaints.clear()
            self.show(answer)
            for theme in ("light", "dark"):
                for width in (360, 414, 600, 768, 992, 993, 1200, 1440):
                    self.check_looks(width, theme)
                    if width in (360, 1440):
                        self.picture(f"{kind}-{width}-{theme}")
            self.check_quiet()

    def test_real_daemons_can_be_read_as_well(self):
        for role in ROLES:
            self.page.size(1440)
            self.open(role)
            self.page.until("!document.querySelector('#members').hidden")
            for theme in ("light", "dark"):
                for width in (360, 1440):
                    self.check_looks(width, theme)
                    self.picture(f"{role}-{width}-{theme}")

    def test_keys_are_enough(self):
        self.show(self.full([f"storage-{i}" for i in range(200)]))
        reached, name = [], "document.activeElement.id || document.activeElement.className"
        for _ in range(12):
            self.page.key("Tab")
            reached.append(self.page.run(name))
            if reached[-1] in ("heat", "filter", "next", "map"):
                outline = self.page.run("getComputedStyle(document.activeElement).outlineStyle")
                self.assertEqual(outline, "solid", reached[-1])
        for wanted in ("skip", "heat", "map", "filter", "next"):
            self.assertIn(wanted, reached)
        self.page.run("document.querySelector('#map').focus()")
        said = []
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "End"):
            self.page.key(key)
            said.append(self.page.run("document.querySelector('#map-detail').textContent"))
        self.assertEqual(len(set(said)), 4, said)
        self.assertTrue(said[0].startswith("storage/storage-0: 0 slots"), said)
        self.assertTrue(said[3].startswith("storage/storage-199:"), said)
        selected = self.page.run("document.getElementById(document.querySelector('#map')"
                                 ".getAttribute('aria-activedescendant')).ariaLabel")
        self.assertEqual(selected, said[3])
        self.page.run("document.querySelector('#next').focus()")
        self.page.key("Enter", "\r")
        self.page.until("document.querySelector('#shown').textContent === '26 to 50 of 200'")

    def watch_long_tasks(self):
        """From here on; longest_task_ms() tells."""
        self.page.run("""(() => {
          window.long = [];
          new PerformanceObserver((list) => {
            window.long.push(...list.getEntries().map((entry) => entry.duration));
          }).observe({type: 'longtask'});
        })()""")

    def longest_task_ms(self, what):
        """Of those above 50 ms; printed."""
        long = self.page.run("window.long")
        longest = max(long, default=0)
        print(f"{what}: {len(long)} tasks above 50 ms, longest {longest:.0f} ms")
        return longest

    def await_polls(self, count):
        polls = len(self.page.headers)
        while len(self.page.headers) < polls + count:
            self.page.look(0.1)

    def crowd(self):
        self.open("node")
        answer = self.now()
        reports = answer["reports"]
        node, slots = reports["nodes"][0]["nodes"][1], reports["slots"]["members"][0]
        nodes = [dict(node, name=f"host-{i:04}", slots=16, used_bytes=i * 1000) for i in
                 range(MEMBERS)]
        reports["nodes"] = [dict(reports["nodes"][0], nodes=nodes[:512]),
                            dict(reports["nodes"][0], nodes=nodes[512:])]
        reports["slots"]["members"] = [dict(slots, name=f"storage/host-{i:04}", slots=16,
                                            percent=0.1) for i in range(MEMBERS)]
        peer = reports["peers"]["peers"][0]
        reports["peers"]["peers"] = [dict(peer, name=f"storage/host-{i:04}") for i in
                                     range(MEMBERS)]
        return answer, nodes

    def test_a_thousand_members_stay_fluid(self):
        answer, nodes = self.crowd()
        self.show(answer)
        self.assertEqual(self.page.run("document.querySelectorAll('#map > div').length"), MEMBERS)
        self.assertIn("1,000 daemons", self.page.run("document.body.textContent"))
        self.assertLess(self.page.run("document.querySelectorAll('*').length"), ELEMENTS_MAX)
        # What is redrawn counts, not how long that takes on this machine.
        self.page.run("""(() => {
          window.changed = 0;
          new MutationObserver((all) => {
            window.changed += all.filter((one) => !(one.target.parentElement || one.target)
              .closest('#state, #who')).length;
          }).observe(document.body, {subtree: true, childList: true, attributes: true,
            characterData: true});
        })()""")
        self.watch_long_tasks()
        self.await_polls(3)
        self.page.until(SHOWN)
        still = self.page.run("window.changed")
        self.assertLess(still, 30)
        nodes[3]["used_bytes"] = 5e7
        nodes[700]["used_bytes"] = 6e7
        self.await_polls(2)
        moved = self.page.run("window.changed") - still
        self.assertGreater(moved, 0)
        self.assertLess(moved, 60)
        self.assertLess(self.longest_task_ms(f"{MEMBERS} members"), 1000)
        self.check_looks(360, "dark")
        self.picture("thousand-360-dark")
        self.check_looks(1440, "light")
        self.picture("thousand-1440-light")
        self.page.run("(() => { const f = document.querySelector('#filter'); f.value = '0700'; "
                      "f.dispatchEvent(new Event('input')); })()")
        self.assertEqual(self.page.run("document.querySelector('#nodes tbody').rows.length"), 1)
        self.check_quiet()

    def test_a_flood_of_long_events_leaves_the_page_fluid(self):
        answer, nodes = self.crowd()
        event = answer["reports"]["events"]["events"][0]
        draw = random.Random(1)

        def flood():
            """All figures and events are new each time: 10 MB a second."""
            for node in nodes:
                node["used_bytes"] = draw.randrange(10**9)
            answer["reports"]["events"]["events"] = [
                dict(event, subject=f"storage/host-{draw.randrange(MEMBERS):04}",
                     text=draw.randbytes(100_000).hex()) for _ in range(100)]
            return json.dumps(answer)

        self.page.answer_with(flood)
        self.open()
        self.watch_long_tasks()
        self.await_polls(3)
        self.page.until(SHOWN)
        # Whatever the machine does besides: a page that shows them whole stands still for seconds.
        self.assertLess(self.longest_task_ms("10 MB of events a second"), 2000)
        longest = self.page.run("Math.max(...[...document.querySelectorAll('#events-table td')]"
                                ".map((cell) => cell.textContent.length))")
        self.assertEqual(longest, 1002)

    def test_nobody_looking_means_no_questions(self):
        self.open()
        self.page.run("Object.defineProperty(document, 'hidden', {value: true, writable: true})")
        self.page.run("document.dispatchEvent(new Event('visibilitychange'))")
        self.page.look(0.2)
        asked = len(self.page.headers)
        end = time.monotonic() + 5  # two questions would have come
        while time.monotonic() < end:
            self.page.look(0.2)
        self.assertEqual(len(self.page.headers), asked)
        self.page.run("document.hidden = false")
        self.page.run("document.dispatchEvent(new Event('visibilitychange'))")
        while len(self.page.headers) == asked:
            self.page.look(0.1)


class Silent(Case):
    """Daemons that end while somebody looks."""

    def test_no_answer_is_said_and_asked_for_less_and_less(self):
        self.open("storage")
        self.cluster.processes[1].send_signal(19)  # SIGSTOP: as of a host that hangs
        try:
            self.page.until("document.querySelector('#state').textContent.includes("
                            "'it does not answer')")
        finally:
            self.cluster.processes[1].send_signal(18)
        self.page.until(SHOWN)
        self.cluster.processes[1].kill()
        state = "document.querySelector('#state').textContent"
        self.page.until(f"{state}.includes('Next try in 4 s')")
        self.assertIn("what is shown is of then", self.page.run(state))
        self.page.until(f"{state}.includes('Next try in 8 s')")
        self.assertFalse(self.page.run("document.querySelector('#again').hidden"))
        self.check_looks(360, "dark")
        self.picture("silent-360-dark")
        self.page.run("document.querySelector('#again').click()")
        self.page.until(f"{state}.includes('Next try in 16 s')")
        # The node says what it lacks.
        self.page.size(1440)
        self.page.theme("light")
        self.open("node")
        self.page.until("document.querySelector('#wrong-list').textContent.includes('storage')")
        self.picture("lost-1440-light")


class Guarded(Case):
    """Daemons with a token and two tenants."""

    @staticmethod
    def metrics(path):
        (path / "token").write_text(TOKEN)
        (path / "token").chmod(0o600)
        return {"token_file": str(path / "token")}

    @staticmethod
    def of_node(path):
        return {"tenants": [{"name": "blue"}, {"name": "green"}],
                "sockets": [{"path": str(path / "node/simm.sock"), "tenant": "blue"}]}

    def give(self, token):
        self.page.until("document.querySelector('#ask')?.hidden === false && "
                        "document.activeElement.id === 'token'")
        self.page.call("Input.insertText", text=token)
        self.page.key("Enter", "\r")

    def test_a_person_gives_the_token_once(self):
        self.page.open(self.url() + "/")
        self.give("not-the-token")
        self.page.until("document.querySelector('#token-state').textContent === "
                        "'This is not the token.'")
        self.page.size(360)
        self.assertEqual(self.page.run(CHECKS)["cut"], [])
        self.assertEqual(self.page.run(CHECKS)["pale"], [])
        self.picture("token-360-light")
        self.page.run("document.querySelector('#token').focus()")
        self.give(TOKEN)
        self.page.until(SHOWN)
        self.assertTrue(self.page.run("document.querySelector('#ask').hidden"))
        self.assertEqual(self.page.run("document.querySelector('#token').value"), "")
        tenants = self.page.run("document.querySelector('#tenants-table').textContent")
        self.assertIn("blue", tenants)
        self.assertNotIn(TOKEN, self.page.run("location.href + document.cookie + "
                                              "document.body.textContent"))
        self.page.until("document.querySelectorAll('#nodes tbody tr').length === 2")
        headers = [headers.get("Authorization") for headers in self.page.headers]
        self.assertEqual(headers[0], None)
        self.assertEqual(headers[-1], "Bearer " + TOKEN)
        # It stays with the tab, and with nothing else.
        self.open()
        other = self.browser.page()
        other.open(self.url() + "/")
        other.until("document.querySelector('#ask')?.hidden === false")
        self.page.size(1440)
        self.check_looks(1440, "light")
        self.picture("tenants-1440-light")
        self.page.run("document.querySelector('#forget').click()")
        self.page.until("document.querySelector('#ask')?.hidden === false")
        self.assertIsNone(self.page.run("sessionStorage.getItem('simm-token')"))
        # Refused answers are the browser's own entries; nothing else is there.
        self.page.look()
        self.assertTrue(all("401" in str(said) for said in self.page.complaints),
                        self.page.complaints)


if __name__ == "__main__":
    if program() is None:
        print("SKIPPED: no browser: apt-get install chromium-headless-shell")
        sys.exit(77)
    print(subprocess.run([program(), "--version"], capture_output=True, text=True,
                         check=False).stdout.strip())
    unittest.main(argv=sys.argv[:1])
