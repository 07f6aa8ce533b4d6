// Pages of schedules: filters work while one types, bulk actions open over the list, portions follow each other.
let typing = 0;

async function narrow(form) {
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  history.replaceState(null, "", `${form.action}?${query}`);
  const text = await (await fetch(location.href, { headers: { "X-Evertick-Live": "1" } })).text();
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const id of ["count", "views", "wrong", "rows", "scope"]) {
    const region = document.getElementById(id), found = fresh.getElementById(id);
    if (region && found) await morph(region, found);
  }
  form.q.setAttribute("aria-invalid", String(!!$("#q-e")));
  countRows();
  countActions();
}
document.addEventListener("input", event => {
  if (!event.target.matches(".filters input[type=search]")) return;
  clearTimeout(typing);
  typing = setTimeout(() => narrow(event.target.form), 200);
});

// -- the bar counts what each button would touch
function countActions() {
  const ticked = $$("input[name=row]:checked"), paused = ticked.filter(each => each.dataset.state === "paused").length;
  for (const [act, count] of [["pause", ticked.filter(each => each.dataset.state === "active").length], ["resume", paused]]) {
    const button = $(`.bulk [data-act=${act}]`);
    if (button) button.firstChild.data = `${act[0].toUpperCase()}${act.slice(1)}${count && !$(".bulk [name=all]")?.checked ? ` ${count}` : ""}… `;
  }
}
document.addEventListener("input", () => setTimeout(countActions));

document.addEventListener("submit", async event => {
  const form = event.target, button = event.submitter;
  if (form.id !== "chosen" || !button?.dataset.act) return;
  event.preventDefault();
  if (!$("input[name=row]:checked") && !$(".bulk [name=all]")?.checked) $("tr.cur input[name=row]")?.click();
  const data = new URLSearchParams(new FormData(form));
  const asks = button.formMethod === "get" ? [`${button.formAction}?${data}`, {}] : [button.formAction, { method: "POST", body: data }];
  const reply = await fetch(asks[0], { ...asks[1], headers: { "X-Evertick-Dialog": "1" } });
  opener = button;
  show(await reply.text());
});

// -- the next portion follows by itself, unless the dialog was closed
function goOn(node) {
  const button = $("[data-continue]", node);
  if (button && (dialog.open || !node.closest?.("dialog"))) setTimeout(() => button.isConnected && button.click(), 50);
}
document.addEventListener("evertick:filled", event => { goOn(event.detail); countActions() });
document.addEventListener("DOMContentLoaded", () => goOn(document));
