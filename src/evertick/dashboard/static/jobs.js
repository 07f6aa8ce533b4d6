// Pages of jobs, functions and logs: filters work while one types, bulk forms open over the list, and the line for the
// terminal says what the form says. The server makes each of them.
let typingTimer = 0;
const later = (ms, work) => { clearTimeout(typingTimer); typingTimer = setTimeout(work, ms) };
const pageOf = async (address, options) => new DOMParser().parseFromString(await (await fetch(address, options)).text(), "text/html");

async function narrowList(form) {
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  const address = `${location.pathname}?${query}`;
  const fresh = await pageOf(address, { headers: { "X-Evertick-Live": "1" } });
  history.replaceState(null, "", address);
  for (const region of $$("#jobs, #rows")) {
    const found = fresh.getElementById(region.id);
    if (found) await morph(region, found.outerHTML);
  }
  countRows();
}

async function preview(form) {
  const data = new URLSearchParams(new FormData(form));
  data.set("preview", "1");
  const fresh = await pageOf(form.action, { method: "POST", body: data, headers: { "X-Evertick-Dialog": "1" } });
  const shown = $(".cli", form), found = $("form .cli", fresh);
  if (shown && found) shown.replaceWith(found);
}

document.addEventListener("input", event => {
  const form = event.target.form;
  if (event.target.matches(".filters input[type=search]")) later(250, () => narrowList(form));
  else if (form?.elements.preview) later(250, () => preview(form));
});
document.addEventListener("change", event => {
  const form = event.target.form;
  if (event.target.matches(".filters select, .filters [type=checkbox]")) form.requestSubmit();
});
document.addEventListener("submit", async event => {
  const form = event.target, button = event.submitter;
  if (form.id !== "chosen" || !button?.matches(".bulk button")) return;
  event.preventDefault();
  await openDialog(`${button.formAction}?${new URLSearchParams(new FormData(form))}`, button);
});
