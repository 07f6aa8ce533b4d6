// Line numbers next to a source, and Tab as two spaces (Escape, then Tab leaves the field).
for (const area of document.querySelectorAll("textarea[data-lines]")) {
  const gutter = document.createElement("pre");
  gutter.className = "gutter";
  gutter.setAttribute("aria-hidden", "true");
  area.parentNode.append(gutter);
  const number = () => {
    gutter.textContent = area.value.split("\n").map((_, index) => index + 1).join("\n");
    gutter.scrollTop = area.scrollTop;
  };
  let leaves = false;
  area.addEventListener("input", number);
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop });
  area.addEventListener("keydown", event => {
    if (event.key === "Tab" && !event.shiftKey && !leaves && !area.readOnly) {
      event.preventDefault();
      area.setRangeText("  ", area.selectionStart, area.selectionEnd, "end");
      number();
    }
    leaves = event.key === "Escape";
  });
  number();
}
document.getElementById("result")?.scrollIntoView({ block: "nearest" });
