"""How a page's texts stand out from what is behind them, as a script that runs in it."""

CONTRAST = """() => {
  const parts = color => color.match(/[0-9.]+/g).map(Number);
  const linear = v => v <= 0.03928 * 255 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = node => {
    for (let at = node; at; at = at.parentElement) {
      const color = parts(getComputedStyle(at).backgroundColor);
      if (color[3] !== 0) return color;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data, node = walker.currentNode.parentElement;
    if (!text.trim() || /^(NO)?SCRIPT$/.test(node.tagName) || !node.getClientRects().length) continue;
    const color = parts(getComputedStyle(node).color);
    const [one, other] = [light(color), light(behind(node))].sort((a, b) => b - a);
    if ((one + 0.05) / (other + 0.05) < 4.5) low.push([node.className, text.slice(0, 30)]);
  }
  return low;
}"""
"""A function that returns the class and the text of everything below 4.5 to 1 (WCAG 2.1, AA)."""
