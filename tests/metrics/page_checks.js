// What browser_test.py asks of any state of the status page: whether its text can be read. Runs in
// the page; each function returns what is wrong, as texts.
(() => {
  const isShown = (node) => {
    const style = getComputedStyle(node);
    return node.getClientRects().length > 0 && style.visibility === 'visible' && style.opacity > 0;
  };
  const name = (node) => `${node.tagName}#${node.id}.${node.className} "${
    node.textContent.trim().slice(0, 40)}"`;

  // Each piece of text with its rectangles, an inner one alone.
  const texts = () => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const parent = node.parentElement;
      if (node.textContent.trim() === '' || !isShown(parent)) continue;
      if (parent.closest('noscript, option, .skip')) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      found.push({parent, rects: [...range.getClientRects()].filter((r) => r.width > 1)});
    }
    return found;
  };

  const cut = () => {
    const wrong = [];
    const root = document.scrollingElement;
    if (root.scrollWidth > innerWidth) wrong.push(`the page is ${root.scrollWidth} px wide`);
    for (const {parent, rects} of texts()) {
      for (const rect of rects) {
        const isOutside = rect.left < -0.5 || rect.right > innerWidth + 0.5;
        if (isOutside) wrong.push(`outside: ${name(parent)}`);
        for (let box = parent; box; box = box.parentElement) {
          const clips = getComputedStyle(box).overflowX !== 'visible' && box !== document.body &&
            box !== document.documentElement;
          const frame = box.getBoundingClientRect();
          if (clips && (rect.left < frame.left - 1 || rect.right > frame.right + 1)) {
            wrong.push(`cut by ${name(box)}: ${name(parent)}`);
          }
        }
      }
    }
    const boxes = 'section, td, th, li, dd, dt, p, button, select';
    for (const node of document.querySelectorAll(boxes)) {
      if (isShown(node) && node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0) {
        wrong.push(`wider than its box: ${name(node)}`);
      }
    }
    return wrong;
  };

  // Words that were broken where no word ends.
  const broken = () => texts()
    .filter(({parent, rects}) => {
      const lines = new Set(rects.map((rect) => Math.round(rect.top))).size;
      if (parent.matches('td.number, td.short, .legend span')) return lines > 1;
      const words = parent.textContent.trim().split(' ').length;
      return parent.matches('th, button, dt') && lines > words;
    })
    .map(({parent}) => name(parent));

  const overlapping = () => {
    const all = texts().flatMap(({parent, rects}) => rects.map((rect) => ({parent, rect})));
    for (const node of document.querySelectorAll('button, input, select, #bar, #map')) {
      if (isShown(node)) all.push({parent: node, rect: node.getBoundingClientRect()});
    }
    all.sort((a, b) => a.rect.top - b.rect.top);
    const wrong = [];
    all.forEach((one, i) => {
      for (let j = i + 1; j < all.length && all[j].rect.top < one.rect.bottom - 2; j += 1) {
        const other = all[j];
        const across = Math.min(one.rect.right, other.rect.right) -
          Math.max(one.rect.left, other.rect.left);
        const down = Math.min(one.rect.bottom, other.rect.bottom) - other.rect.top;
        const isInside = one.parent.contains(other.parent) || other.parent.contains(one.parent);
        if (across > 2 && down > 2 && !isInside) {
          wrong.push(`${name(one.parent)} and ${name(other.parent)}`);
        }
      }
    });
    return wrong;
  };

  // https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio
  const colour = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92
      : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ratio = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const ground = (node) => {
    for (let box = node; box; box = box.parentElement) {
      const here = colour(getComputedStyle(box).backgroundColor);
      if (here.length === 3 || here[3] === 1) return here;
    }
    return [255, 255, 255];
  };
  const pale = () => {
    const wrong = [];
    for (const {parent} of texts()) {
      const found = ratio(colour(getComputedStyle(parent).color), ground(parent));
      if (found < 4.5) wrong.push(`${found.toFixed(2)}: ${name(parent)}`);
    }
    const edged = 'button:enabled, input, select, .bar, #map > div';
    for (const node of document.querySelectorAll(edged)) {
      if (!isShown(node)) continue;
      const edge = colour(getComputedStyle(node).borderTopColor);
      const found = ratio(edge, ground(node.parentElement));
      if (found < 3) wrong.push(`edge ${found.toFixed(2)}: ${name(node)}`);
    }
    return wrong;
  };

  return {cut: cut(), broken: broken(), overlapping: overlapping(), pale: pale(),
    texts: texts().length};
})()
