// The lowest contrast of the texts that a page shows.
(() => {
  const light = (color) => color.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (!/, 0\)$/.test(color)) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const ratio = (node) => {
    const pair = [light(getComputedStyle(node).color), light(ground(node))].sort();
    return (pair[1] + 0.05) / (pair[0] + 0.05);
  };
  const shown = [...document.querySelectorAll("body *")].filter((node) =>
    node.checkVisibility() && [...node.childNodes].some((part) => part.nodeType === 3 && part.data.trim()));
  return Math.min(...shown.map(ratio));
})()
