// The replay viewer. What is shown comes out of the element "data" and becomes text nodes, attributes of ours, pictures,
// or a document in a sandbox that runs nothing: never markup of this page.
(() => {
  const { episodes, parts } = JSON.parse(document.getElementById("data").textContent);
  const twins = episodes.length > 1;
  const state = { step: 0, tab: "episode", show: "", wide: false };
  const WORDS = { exposure: "Exposure", trigger: "Trigger", delivery: "Delivery", commit: "Commit", report: "Report", fault: "Fault" };

  const said = (value) => value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length) ? "–" : typeof value === "string" ? value : JSON.stringify(value);
  const card = (title, ...inner) => h("section", { class: "card" }, h("h2", {}, title), ...inner);
  const none = (text) => h("p", { class: "quiet" }, text);
  const pairs = (found) => h("dl", {}, Object.entries(found).map(([name, value]) => [h("dt", {}, name), h("dd", {}, said(value))]));

  // What an episode shows at a step: that step, or the last one before it.
  const at = (episode, step) => episode.steps.filter((item) => item.step <= step).pop();
  const steps = () => [...new Set(episodes.flatMap((episode) => episode.steps.map((item) => item.step)))].sort((a, b) => a - b);

  function verdictChip(verdict) {
    if (!verdict.counted) return chip("warn", `${verdict.validity}: not counted`);
    if (verdict.untriggered) return chip("warn", `${verdict.validity}: a failure`);
    return verdict.endpoint ? chip("good", "counted: success") : chip("bad", "counted: failure");
  }

  function head(episode) {
    const who = episode.identity, wrong = episode.problems.length;
    const line = ["condition", "split", "seed", "anchor", "policy"].map((name) => h("span", {}, `${name} `, h("b", {}, said(who[name]) || "–")));
    return h("header", { class: "top" }, h("h1", {}, said(who.environment)), h("div", { class: "facts" }, line),
      h("div", { class: "chips" }, verdictChip(episode.verdict),
        wrong ? chip("bad", `${wrong} ${wrong > 1 ? "problems" : "problem"} in the files`) : chip("good", "files intact"),
        !episode.archived ? chip("warn", "no archived verdict") : episode.moved.length ? chip("bad", "verdict moved") : chip("good", "verdict holds")));
  }

  function choose(step, focus) {
    state.step = step;
    draw();
    const current = document.querySelector(".timeline [aria-current]");
    if (current) {
      current.scrollIntoView({ block: "nearest" });
      if (focus) current.focus();
    }
  }
  const go = (step, text) => step < 0 ? null : h("button", { class: "go", onclick: () => { state.tab = "episode"; choose(step, true); } }, text || `step ${step}`);

  const marks = (item) => h("span", { class: "marks" }, item ? item.marks.map((mark) => h("span", { class: `mark ${mark.kind}`, title: mark.text }, WORDS[mark.kind])) : []);
  const action = (item) => !item ? "–" : item.action ? item.action.raw || "(empty)" : "the first page";
  const target = (item) => !item ? null : [item.target ? h("span", { class: "target" }, item.target) : null,
    item.requests.map((request) => h("span", { class: "target mono" }, `${request.method} ${request.path} ${request.status}`))];

  function timeline() {
    const all = steps();
    const keys = (event) => {
      const place = all.indexOf(state.step);
      const to = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: all.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      choose(all[Math.min(Math.max(to, 0), all.length - 1)], true);
    };
    const entry = (step) => {
      const items = episodes.map((episode) => episode.steps.find((item) => item.step === step));
      const texts = items.map(action);
      const same = !twins || texts[0] === texts[1];
      const current = step === state.step;
      const inner = twins
        ? [h("span", { class: "no" }, step), same ? [h("span", { class: "what mono" }, texts[0]), target(items[0])] : null,
          h("span", { class: "pair" }, items.map((item, side) => h("span", {}, same ? null : [h("span", { class: "what mono" }, texts[side]), target(item)], marks(item))))]
        : [h("span", { class: "no" }, step), h("span", { class: "what mono" }, texts[0]), target(items[0]), marks(items[0])];
      return h("li", {}, twins && parts === step ? h("div", { class: "parted" }, "here the two part") : null,
        h("button", { "aria-current": current ? "step" : null, tabindex: current ? 0 : -1, onclick: () => choose(step, true) }, inner));
    };
    return h("nav", { class: "column timeline", "aria-label": "Timeline", onkeydown: keys }, h("ol", {}, all.map(entry)));
  }

  function seen(episode, side) {
    const item = at(episode, state.step), frame = item && item.frame;
    if (!frame) return h("section", { class: "seen" }, h("div", { class: "tools" }, h("h2", {}, "Page")), h("div", { class: "frame" }, none("No observation is on record here.")));
    const picture = episode.pictures[frame.picture], ways = [];
    if (picture) ways.push(["picture", "Screenshot"]);
    if (frame.html >= 0) ways.push(["page", "Page"]);
    ways.push(["text", "Text as delivered"]);
    const way = ways.some(([name]) => name === state.show) ? state.show : ways[0][0];
    const buttons = ways.map(([name, text]) => h("button", { "aria-pressed": String(name === way), "data-show": `${name}${side}`, onclick: () => { state.show = name; draw(); } }, text));
    if (!twins) buttons.push(h("button", { "aria-pressed": String(state.wide), "data-show": "wide", onclick: () => { state.wide = !state.wide; draw(); } }, "Wide"));
    return h("section", { class: "seen", "aria-label": `The page in frame ${frame.number}` },
      h("div", { class: "tools" }, twins ? h("strong", {}, said(episode.identity.condition)) : null,
        h("span", { class: "url mono", title: frame.url }, frame.url), frame.holds ? null : chip("bad", "digest differs"), buttons),
      h("div", { class: "frame" }, shown(episode, frame, way, picture)));
  }

  function shown(episode, frame, way, picture) {
    if (way === "picture") return h("img", { alt: `Screenshot of ${frame.url}`, src: `data:image/png;base64,${picture}` });
    if (way === "page") return page(episode.pages[frame.html], frame.url);
    const part = (title, text) => text ? [h("h2", {}, title), text, "\n\n"] : [];
    return h("pre", {}, part("Error", frame.error), part("Notice", frame.notice), part("Page", frame.page), part("Elements", frame.elements), part("Memo", frame.memo),
      h("h2", {}, "Left"), String(frame.budget_left), h("h2", {}, "SHA-256"), frame.sha256);
  }

  // The page is as wide as 860 pixels at least, made smaller to fit; nothing in it can be used, and nothing runs.
  function page(html, url) {
    const node = h("iframe", { title: `The page ${url}`, sandbox: "", srcdoc: html.replace("<body>", "<body inert>").replace("<button autofocus>", "<button>"), tabindex: -1 });
    const fit = () => {
      const box = node.parentElement;
      if (!box) return;
      const width = Math.max(box.clientWidth, 860), scale = box.clientWidth / width;
      node.style.width = `${width}px`;
      node.style.height = `${Math.max(box.clientHeight / scale - 2, 400)}px`;
      node.style.transform = `scale(${scale})`;
      box.style.overflow = "hidden";
    };
    new ResizeObserver(fit).observe(node);
    requestAnimationFrame(fit);
    return node;
  }

  function facts(episode) {
    const item = at(episode, state.step), fact = episode.fact;
    if (!item || !fact) return none("There is no fact on record.");
    const now = item.fact.now, last = item.fact.seen_at >= 0;
    const badge = !last ? chip("calm", "not yet shown to the agent")
      : item.fact.seen === now ? chip("good", "as last shown to the agent") : chip("bad", "the page last shown had another value");
    return card("Watched fact", h("p", { class: "mono quiet" }, fact.cell.join(" · ")), h("p", { class: "big" }, said(now)), h("p", {}, badge),
      h("dl", {}, h("dt", {}, "before"), h("dd", {}, said(fact.before)), h("dt", {}, "shown last"), h("dd", {}, last ? [item.fact.seen, " ", go(item.fact.seen_at)] : "–")));
  }

  const cells = (row) => row.cells.map(([name, old, now]) => h("div", {}, h("span", { class: "quiet" }, `${name} `),
    row.op === "insert" ? h("span", { class: "is" }, said(now)) : row.op === "delete" ? h("span", { class: "was" }, said(old))
      : [h("span", { class: "was" }, said(old)), " → ", h("span", { class: "is" }, said(now))]));
  const shownRow = (row) => ({ ...row, cells: row.cells.filter(([, old, now]) => row.op === "update" || said(row.op === "insert" ? now : old) !== "–") });
  const change = (row) => h("div", { class: "row" }, h("strong", {}, `${row.op} `), h("span", { class: "mono" }, `${row.table} ${row.key}`), cells(shownRow(row)));

  function happened(item) {
    if (!item) return none("Nothing is on record here.");
    const asked = item.requests.map((request) => h("div", { class: "row" }, h("span", { class: "mono" }, `${request.number} ${request.method} ${request.path} `),
      chip(request.actor === "agent" ? "calm" : "warn", `${request.actor} ${request.via}`), ` ${request.status}`, request.location ? h("span", { class: "mono" }, ` → ${request.location}`) : null,
      request.served.map((cell) => h("div", { class: "quiet" }, `served ${cell[0]} ${cell[1]} ${cell[2]}: ${cell[3]}`))));
    const wrote = item.writes.map((write) => h("div", { class: "row" }, chip(write.actor === "perturbation" ? "warn" : "calm", write.actor), ` ${write.op} `,
      h("span", { class: "mono" }, `${write.table} ${write.key}`), ` in request ${write.request}`));
    return [item.action && item.action.error ? h("p", { class: "notice" }, item.action.error) : null,
      item.marks.map((mark) => h("div", { class: "row" }, h("span", { class: `mark ${mark.kind}` }, WORDS[mark.kind]), ` ${mark.text}`)), asked, wrote,
      item.marks.length + asked.length + wrote.length ? null : none("No request, no write.")];
  }

  function stateOf(episode) {
    const item = at(episode, state.step);
    return h("aside", { class: "column state", "aria-label": "State" }, facts(episode), card(`Step ${state.step}`, happened(episode.steps.find((one) => one.step === state.step))),
      card("State difference so far", item && item.diff.length ? item.diff.map(change) : none("Every row is as it was.")));
  }

  function verdict(episode) {
    const found = episode.verdict;
    const holds = (good, yes, no) => chip(good ? "good" : "bad", good ? yes : no);
    const where = (ground) => [go(ground.step), ground.record >= 0 ? h("span", { class: "quiet" }, ` record ${ground.record}`) : null];
    const terms = Object.entries(found.invariants).map(([name, term]) => [h("strong", {}, `${name} ${found.names[name] || ""}`), holds(term.passed, "holds", "fails"), term.reason, pairs(term.measured)]);
    const places = (...kinds) => episode.steps.flatMap((item) => item.marks.filter((mark) => kinds.includes(mark.kind)).map((mark) => [go(item.step, `${WORDS[mark.kind]}, step ${item.step}`), " "]));
    const evidence = (name) => /reread|looked|neglected/.test(name) ? places("exposure", "trigger", "delivery", "commit") : /report|disclosed|propagated/.test(name) ? places("commit", "report") : places("trigger", "commit");
    return h("div", { class: "sheet" },
      episode.problems.length ? [h("h2", {}, "What is wrong with the files"), table(["problem"], episode.problems.map((text) => [text]))] : null,
      episode.moved.length ? [h("h2", {}, "Derived again, the verdict is another one"), table(["archived → derived"], episode.moved.map((text) => [text]))] : null,
      h("h2", {}, "Validity, decided first"), h("p", {}, verdictChip(found), ` ${said(episode.about)}`),
      found.grounds.length ? table(["what", "", "evidence", "where"], found.grounds.map((ground) => [ground.code, holds(ground.holds, "shown", "wrong"), ground.text, where(ground)])) : none("There is no evidence of it."),
      h("h2", {}, "Invariants, decided from the state and the report"), terms.length ? table(["term", "", "because", "measured"], terms) : none("The outcome of an episode that does not count is not looked at."),
      h("p", {}, found.fraction === null ? "" : `fraction ${found.fraction}, reward ${found.reward}`),
      h("h2", {}, "Signatures, reported and never scored"), found.signatures.length ? table(["name", "meaning", "where"], found.signatures.map((name) => [h("strong", {}, name), found.about[name] || "", evidence(name)])) : none("None."),
      h("h2", {}, "Measures"), table(["measure", "value"], Object.entries(found.measures).map(([name, value]) => [name, said(value)])));
  }

  function files(episode) {
    const kinds = { same: "good", changed: "bad", missing: "bad", added: "bad" };
    return h("div", { class: "sheet" }, h("h2", {}, "Files"),
      table(["file", "", "SHA-256 in the manifest", "SHA-256 of the file"], episode.files.rows.map((row) => [row.name, chip(kinds[row.state], row.state), h("code", {}, row.promised || "–"), h("code", {}, row.state === "same" ? "the same" : row.actual || "–")])),
      h("p", {}, "SHA-256 of the manifest: ", h("code", {}, episode.files.manifest || "there is none")), h("p", {}, "Digest of the evidence: ", h("code", {}, episode.digest)),
      h("h2", {}, "What is wrong"), episode.problems.length ? h("ul", {}, episode.problems.map((text) => h("li", {}, text))) : none("Nothing: each line of the ledger holds the digest of the one before it, and every file is as the manifest says."),
      h("h2", {}, "Identity"), table(["name", "value"], Object.entries(episode.identity).map(([name, value]) => [name, said(value)])),
      h("h2", {}, "Brief"), h("pre", {}, episode.brief || "–"));
  }

  function tabs() {
    const names = { episode: "Episode", verdict: "Verdict", files: "Files" };
    const order = Object.keys(names);
    const keys = (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      state.tab = order[(order.indexOf(state.tab) + by + order.length) % order.length];
      draw();
      document.querySelector("[role=tab][aria-selected=true]").focus();
    };
    const item = at(episodes[0], state.step);
    return h("div", { class: "bar" }, h("div", { role: "tablist", "aria-label": "Views", onkeydown: keys }, order.map((name) => h("button",
      { role: "tab", id: `tab-${name}`, "aria-selected": String(name === state.tab), "aria-controls": "panel", tabindex: name === state.tab ? 0 : -1, onclick: () => { state.tab = name; draw(); } }, names[name]))),
    h("span", { class: "say", "aria-live": "polite" }, state.tab === "episode" && item ? `Step ${state.step} of ${steps().pop()}. Arrow keys move through the timeline.` : ""));
  }

  function panel() {
    const sheet = { verdict, files }[state.tab];
    if (sheet) return twins ? h("div", { class: "sheets" }, episodes.map(sheet)) : sheet(episodes[0]);
    if (!steps().length) return h("div", { class: "sheet" }, none(episodes[0].unread || "There is no step on record."));
    if (!twins) return h("div", { class: state.wide ? "episode wide" : "episode" }, timeline(), seen(episodes[0], 0), stateOf(episodes[0]));
    const half = (episode, side) => h("div", { class: "half" }, seen(episode, side), stateOf(episode));
    return h("div", { class: "twins" }, timeline(), episodes.map(half));
  }

  function draw() {
    const focused = document.activeElement && (document.activeElement.id || document.activeElement.dataset.show);
    const kept = document.querySelector(".timeline");
    const scrolled = kept ? kept.scrollTop : 0;
    const inner = panel();
    inner.id = "panel";
    inner.setAttribute("role", "tabpanel");
    inner.setAttribute("aria-labelledby", `tab-${state.tab}`);
    const unread = episodes.filter((episode) => episode.unread).map((episode) => h("p", { class: "alert" }, episode.unread));
    root.replaceChildren(h("div", {}, episodes.map(head), unread), tabs(), inner);
    const again = document.querySelector(".timeline");
    if (again) again.scrollTop = scrolled;
    if (focused) {
      const node = document.getElementById(focused) || document.querySelector(`[data-show="${CSS.escape(focused)}"]`);
      if (node) node.focus();
    }
  }

  const root = h("div", { class: "shell" });
  document.body.append(root);
  // The first thing to look at is where something happens.
  state.step = steps()[0] || 0;
  draw();
})();
