// Tells the page around this one what the test wants to know of it, as JSON.
const errors = [];
window.addEventListener("error", (event) => errors.push(String(event.message)));
window.alert = (text) => errors.push("alert: " + text);

const luminance = (color) => {
  const [r, g, b] = color.match(/[\d.]+/g).map((x) => {
    const c = Number(x) / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const opaque = (color) => !/rgba\(.*, 0\)|transparent/.test(color);
const background = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (opaque(color)) return color;
  }
  return "rgb(255, 255, 255)";
};
const contrast = (element) => {
  const style = getComputedStyle(element);
  const color = element.closest("svg") ? style.fill : style.color;
  const [a, b] = [luminance(color), luminance(background(element))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
};

window.addEventListener("load", () => {
  document.querySelectorAll("details").forEach((element) => (element.open = true));
  const all = [...document.body.querySelectorAll("*")];
  const own = (element) =>
    [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
  const shown = (element) => own(element) && !["TITLE", "SCRIPT", "title"].includes(element.tagName);
  const faint = all
    .filter(shown)
    .map((element) => [own(element).slice(0, 40), contrast(element)])
    .filter(([, ratio]) => ratio < 4.5)
    .map(([text, ratio]) => text + ": " + ratio.toFixed(2));
  const wide = all
    .filter((element) => !element.closest(".scroll") || element.matches(".scroll"))
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
    .map((element) => element.tagName + "." + element.className + " " + own(element).slice(0, 40));
  const found = {
    width: innerWidth,
    scroll_width: document.documentElement.scrollWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    background: getComputedStyle(document.body).backgroundColor,
    errors,
    faint: [...new Set(faint)],
    wide,
  };
  parent.postMessage(JSON.stringify(found), "*");
});
