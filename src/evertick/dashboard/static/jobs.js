// Pages of jobs, functions and logs: filters work while one types, and bulk forms open over the list. The server makes both.
let typingTimer = 0;

async function narrowList(form) {
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  const address = `${location.pathname}?${query}`;
  const text = await (await fetch(address, { headers: { "X-Evertick-Live": "1" } })).text();
  const fresh = new DOMParser().parseFromString(text, "text/html");
  history.replaceState(null, "", address);
  for (const region of $$("#jobs, #rows")) {
    const found = fresh.getElementById(region.id);
    if (found) await morph(region, found);
  }
  countRows();
}

document.addEventListener("input", event => {
  if (!event.target.matches(".filters input[type=search]")) return;
  clearTimeout(typingTimer);
  typingTimer = setTimeout(() => narrowList(event.target.form), 250);
});
document.addEventListener("change", event => {
  const form = event.target.form;
  if (event.target.matches(".filters select, .filters [name][type=checkbox]")) form.requestSubmit();
});
document.addEventListener("submit", async event => {
  const form = event.target, button = event.submitter;
  if (form.id !== "chosen" || !button?.matches(".bulk button")) return;
  event.preventDefault();
  await openDialog(`${button.formAction}?${new URLSearchParams(new FormData(form))}`, button);
});
