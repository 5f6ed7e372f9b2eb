// What runs in the page, in a world of its own that the page's scripts (there are none) could not reach.
// `read` is the walk of envos/envs/drivers/html.py on the browser's own document: keep the two alike.
const envos = (() => {
  let nodes = [];

  function read() {
    const lines = [], elements = [], forms = [], found = [];
    let fields = [], submit = "", notice = "", live = true;
    const get = (node, name) => node.getAttribute(name) || "";

    function element(node, role, label, value = "", target = "", choice = "", options = [], row = -1) {
      if (!live) return "";
      const index = found.push(node);
      elements.push([index, role, label, value, target, role === "link" ? -1 : forms.length, choice, options, row]);
      return `[${index}] `;
    }

    function inline(parent, row = -1) {
      let text = "";
      for (const node of parent.childNodes) {
        if (node.nodeType === Node.TEXT_NODE) text += node.data;
        else text += element(node, "link", node.textContent, "", get(node, "href"), "", [], row) + node.textContent;
      }
      return text;
    }

    const cells = (node, gap, row) => lines.push([...node.children].map((cell) => inline(cell, row)).join(gap));

    function field(node) {
      const [caption, control] = node.children;
      const label = caption.textContent, name = get(control, "name");
      if (control.localName === "input") {
        const value = control.value;
        fields.push(["text", name, label, value]);
        lines.push(`${label}: ${element(control, "textbox", label, value, name)}"${value}"`);
        return;
      }
      const options = [...control.options].map((item) => [get(item, "value"), item.textContent]);
      const [value, shown] = options[control.selectedIndex] || ["", ""];
      fields.push(["select", name, label, options, value]);
      const texts = options.map((item) => item[1]);
      lines.push(`${label}: ${element(control, "combobox", label, shown, name, "", texts)}${shown}`);
    }

    function group(node) {
      const [legend, ...labels] = node.children;
      const label = legend.textContent, name = get(node, "name"), options = [];
      let value = "";
      lines.push(`${label}:`);
      for (const item of labels) {
        const [control, caption] = item.children;
        const choice = get(control, "value"), text = caption.textContent, on = control.checked;
        if (on) value = choice;
        options.push([choice, text]);
        const at = element(control, "radio", text, on ? "on" : "off", name, choice);
        lines.push(`${at}${on ? "(x)" : "( )"} ${text}`);
      }
      fields.push(["radio", name, label, options, value]);
    }

    function blocks(parent) {
      [...parent.children].forEach((node, place) => {
        const tag = node.localName, text = node.textContent;
        if (tag === "tr") cells(node, " | ", place);
        else if (tag === "ul") cells(node, " | ");
        else if (tag === "div") cells(node, ": ");
        else if (tag === "p") lines.push((get(node, "role") === "status" ? "! " : "") + inline(node));
        else if (tag === "h1") lines.push("# " + text);
        else if (tag === "h2") lines.push((parent.localName === "dialog" ? "!! " : "## ") + text);
        else if (tag === "input") fields.push(["hidden", get(node, "name"), get(node, "value")]);
        else if (tag === "label") field(node);
        else if (tag === "fieldset") group(node);
        else if (tag === "button") {
          submit = text;
          lines.push(element(node, "button", text) + text);
        } else if (tag === "form") {
          fields = [];
          blocks(node);
          forms.push([get(node, "method"), get(node, "action"), fields, submit]);
        } else if (tag === "dialog") {
          const parts = [...node.children].filter((item) => /^(h2|p)$/.test(item.localName));
          notice = parts.map((item) => item.textContent).join(": ");
          blocks(node);
        } else {
          const outer = live;
          live = outer && !node.hasAttribute("inert");
          blocks(node);
          live = outer;
        }
      });
    }

    blocks(document.body);
    nodes = found;
    return JSON.stringify({ url: location.href, text: lines.join("\n"), notice, elements, forms });
  }

  // The middle of an element, scrolled into view if need be; null where something else lies on top of it.
  function locate(index) {
    const node = nodes[index - 1];
    for (const scroll of [false, true]) {
      if (scroll) node.scrollIntoView({ behavior: "instant", block: "center", inline: "nearest" });
      const box = node.getClientRects()[0];
      if (!box) return null;
      const x = box.left + box.width / 2, y = box.top + box.height / 2;
      const hit = document.elementFromPoint(x, y);
      if (hit && node.contains(hit) && box.top >= 0 && box.bottom <= innerHeight) return [x, y];
    }
    return null;
  }

  // An option of a drop-down list, which opens outside the page, where no mouse event of ours could reach it.
  function choose(index, place) {
    const node = nodes[index - 1];
    node.focus();
    node.selectedIndex = place;
    node.dispatchEvent(new Event("input", { bubbles: true }));
    node.dispatchEvent(new Event("change", { bubbles: true }));
    return read();
  }

  return { read, locate, choose };
})();

document.addEventListener("securitypolicyviolation", (event) => {
  envosDeliver(JSON.stringify({ blocked: event.blockedURI, directive: event.effectiveDirective }));
});

if (window === window.top) {
  document.addEventListener("DOMContentLoaded", () => {
    // A blinking caret would make two pictures of one page differ.
    document.documentElement.style.caretColor = "transparent";
    envosDeliver(envos.read());
  });
}
