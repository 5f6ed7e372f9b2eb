// A person plays an episode. The world's page stands in a frame that runs no script; what is done in it is caught here and
// sent as an action, one at a time. All texts become text nodes.
(() => {
  const CONTROLS = "a, button, input:not([type=hidden]), select";
  const TYPES = { text: "text", datetime: "such as 2026-03-12 10:30", money: "such as 1400.00", id: "a reference" };
  let state = null, frame = null, sent = Promise.resolve(), shownRequest = -1, inside = false;

  const said = (value) => typeof value === "string" ? value : JSON.stringify(value);

  async function ask(path, body) {
    const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const reply = await fetch(path, options);
    if (!reply.ok) throw new Error(await reply.text());
    return reply.json();
  }

  // One action after the other: each is made of the page that the one before it has led to.
  function act(make) {
    sent = sent.then(async () => {
      const action = make();
      if (!action || state.verdict) return;
      take(await ask("act", { after: state.after, args: [], fields: {}, ...action }));
    }).catch((error) => { status.textContent = `This could not be done: ${error.message}`; });
    return sent;
  }

  const controls = () => [...frame.contentDocument.querySelectorAll(CONTROLS)].filter((node) => !node.closest("[inert]"));
  const at = (node) => String(controls().indexOf(node) + 1);

  function listen() {
    const page = frame.contentDocument;
    frame.style.visibility = "visible";
    const fill = (node) => node.dataset.sent === node.value ? null : ((node.dataset.sent = node.value), { verb: "fill", args: [at(node), node.value] });
    for (const node of controls()) if (node.localName === "input" && node.type !== "radio") node.dataset.sent = node.value;
    page.addEventListener("click", (event) => {
      const link = event.target.closest("a");
      if (!link) return;
      event.preventDefault();
      inside = true;
      act(() => link.isConnected && { verb: "click", args: [at(link)] });
    });
    page.addEventListener("auxclick", (event) => event.preventDefault());
    page.addEventListener("change", (event) => {
      const node = event.target;
      inside = true;
      if (node.localName === "select") act(() => ({ verb: "select_option", args: [at(node), node.selectedOptions[0].textContent] }));
      else if (node.type === "radio") act(() => ({ verb: "click", args: [at(node)] }));
      else act(() => fill(node));
    });
    page.addEventListener("submit", (event) => {
      event.preventDefault();
      inside = true;
      const button = event.target.querySelector("button");
      for (const node of event.target.querySelectorAll("input:not([type=hidden]):not([type=radio])")) act(() => fill(node));
      act(() => button.isConnected && { verb: "click", args: [at(button)] });
    });
    const first = page.querySelector("[data-first]");
    if (first) first.focus();
    else if (inside) frame.contentWindow.focus();
  }

  function show() {
    frame = h("iframe", { title: "The application", sandbox: "allow-same-origin allow-forms", srcdoc: state.html.replace("<button autofocus>", "<button data-first>") });
    // Until it is listened to, nothing in it can be clicked.
    frame.style.visibility = "hidden";
    frame.addEventListener("load", listen);
    holder.replaceChildren(frame);
    shownRequest = state.request;
  }

  function take(found) {
    state = found;
    document.querySelector("h1").textContent = state.environment;
    if (state.verdict) return ended();
    if (state.request !== shownRequest) show();
    else controls().forEach((node, place) => {
      // A text is kept without what no field holds.
      if (node.localName !== "input" || node.type === "radio") return;
      node.value = node.dataset.sent = state.values[place];
    });
    address.value = state.url;
    brief.textContent = state.goal;
    meter.max = state.budget;
    meter.value = state.left;
    left.textContent = `${state.left} of ${state.budget} actions left`;
    status.textContent = state.error;
    status.hidden = !state.error;
    if (document.activeElement !== memo) memo.value = state.memo;
    log.replaceChildren(...state.last_actions.split("\n").filter(Boolean).reverse().map((line) => h("li", { class: "mono" }, line)));
    if (!report.childElementCount) {
      for (const [name, kind] of Object.entries(state.report)) {
        report.append(h("label", { for: `report-${name}` }, name), h("input", { id: `report-${name}`, name, autocomplete: "off", placeholder: TYPES[kind] || kind }));
      }
      report.append(h("div", { class: "buttons" }, h("button", { class: "main" }, "Report and end the episode")));
    }
  }

  const card = (title, ...inner) => h("section", { class: "card" }, h("h2", {}, title), ...inner);
  const status = h("p", { class: "notice", role: "alert", hidden: true });
  const holder = h("div", { class: "frame" });
  const address = h("input", { id: "address", "aria-label": "Address", autocomplete: "off", spellcheck: "false" });
  const go = h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); inside = false; const to = address.value; act(() => ({ verb: "goto", args: [to] })); } },
    h("button", { type: "button", onclick: () => act(() => ({ verb: "go_back" })) }, "Back"), address, h("button", {}, "Go"));
  const brief = h("p", { class: "brief", tabindex: 0 });
  const meter = h("meter", { min: 0, "aria-label": "Actions left" });
  const left = h("p", {});
  const memo = h("textarea", { id: "memo", rows: 3, maxlength: 300, "aria-label": "Memo" });
  const remember = h("form", { onsubmit: (event) => { event.preventDefault(); const text = memo.value; act(() => ({ verb: "memo", args: [text] })); } },
    memo, h("div", { class: "buttons" }, h("button", {}, "Keep the memo")));
  const report = h("form", { autocomplete: "off", onsubmit: (event) => { event.preventDefault(); const fields = Object.fromEntries(new FormData(report)); act(() => ({ verb: "report", fields })); } });
  const log = h("ol", { class: "log" });
  const top = h("header", { class: "top" }, h("h1", {}, "EnvOS"), h("div", { class: "facts" }, "Do the task in the page. Every click, every field, a memo and the report are one action each."));
  const side = h("aside", { class: "side", "aria-label": "The task" }, card("Budget", meter, left), status, card("Brief", brief), card("Report", report), card("Memo", remember), card("Actions so far", log));
  const root = h("div", { class: "shell" }, top, h("div", { hidden: true }), h("div", { class: "play" }, h("div", { class: "seen" }, go, holder), side));

  function ended() {
    const found = state.verdict;
    const kind = !found.counted ? "warn" : found.endpoint ? "good" : "bad";
    const word = !found.counted ? `not counted: ${found.validity}` : found.untriggered ? `a failure: ${found.validity}` : found.endpoint ? "success" : "failure";
    const terms = Object.entries(found.invariants).map(([name, term]) => [h("strong", {}, `${name} ${state.names[name]}`), chip(term.passed ? "good" : "bad", term.passed ? "holds" : "fails"), term.reason,
      h("dl", {}, Object.entries(term.measured).map(([what, value]) => [h("dt", {}, what), h("dd", {}, said(value))]))]);
    const close = h("button", { onclick: async () => { await ask("close", {}); close.disabled = true; close.textContent = "Closed"; } }, "Close");
    const sheet = h("main", { class: "sheet" }, h("h2", {}, "The verdict"), h("p", { class: "big" }, chip(kind, word), ` reward ${found.reward}`), h("p", {}, state.changed),
      found.reasons.length ? table(["why", "detail"], found.reasons.map((reason) => [reason.code, reason.detail])) : null,
      terms.length ? [h("h2", {}, "Invariants"), table(["term", "", "because", "measured"], terms)] : null,
      h("h2", {}, "Signatures"), found.signatures.length ? table(["name", "meaning"], found.signatures.map((name) => [h("strong", {}, name), state.about[name]])) : h("p", {}, "None."),
      h("h2", {}, "Evidence"), h("p", {}, h("a", { href: "replay" }, "The replay: every step, page, write and record that this follows from")), h("p", {}, close));
    root.replaceChildren(top, h("div", { hidden: true }), sheet);
    sheet.tabIndex = -1;
    sheet.focus();
  }

  document.body.append(root);
  act(() => null);
  sent = sent.then(() => ask("state")).then(take);
})();
