// Enhancement only: every list, detail and form works without it.
const $ = (query, node = document) => node.querySelector(query);
const $$ = (query, node = document) => [...node.querySelectorAll(query)];
const root = document.documentElement;
const say = text => { $("#say").textContent = text };
const kept = {
  get: key => { try { return localStorage[key] } catch { return undefined } },
  set: (key, value) => { try { localStorage[key] = value } catch { /* a private window */ } },
};
const pause = ms => new Promise(done => setTimeout(done, ms));

// -- the browser's zone: the server cannot know it, so it is told once
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && !document.cookie.includes("evertick_browser_zone=")) {
  document.cookie = `evertick_browser_zone=${zone}; path=/; samesite=strict; max-age=31536000`;
  if (document.body.dataset.events && !["UTC", "Etc/UTC"].includes(zone)) location.reload();
}

// -- what only works with script appears with it
if (kept.get("theme")) root.dataset.theme = kept.get("theme");
const reveal = place => { for (const each of $$("[data-theme-toggle], [data-open], [data-script]", place)) each.hidden = false };
reveal(document);
const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

// -- dialogs: the form of a link is shown over the page; without script it is a page of its own
const dialog = $("#dialog");
let opener = null;

async function openDialog(href, from) {
  opener = from;
  try {
    const reply = await fetch(href, { headers: { "X-Evertick-Dialog": "1" } });
    if (reply.redirected) return void (location.href = href);
    show(await reply.text());
  } catch {
    show('<header><h2 id="dialog-title">The server cannot be reached</h2></header><div class="body"><p class="err st failed">Nothing was done. Try again.</p></div><footer><span class="right"><button class="b" type="button" data-close>Close</button></span></footer>');
  }
}

function show(html) {
  if (!dialog.open) dialog.showModal(); // before it is filled: it gives the focus to what comes first
  fill(html);
}

function fill(html) {
  dialog.innerHTML = html;
  const first = ["[aria-invalid=true]", "[autofocus]", "form :is(input:not([type=hidden]), textarea, select)", "[data-close]", "button"];
  first.map(each => $(each, dialog)).find(Boolean)?.focus();
  arm(dialog);
  document.dispatchEvent(new CustomEvent("evertick:filled", { detail: dialog }));
}

async function send(form, submitter) {
  const data = new URLSearchParams(new FormData(form, submitter));
  submitter?.setAttribute("aria-disabled", "true");
  try {
    const reply = await fetch(form.action, { method: "POST", body: data, headers: { "X-Evertick-Dialog": "1" } });
    const to = reply.headers.get("X-Evertick-To");
    if (to) {
      const same = new URL(to, location.href);
      if (same.href === location.href) location.reload(); else location.href = to;
    } else fill(await reply.text());
  } catch {
    submitter?.setAttribute("aria-disabled", "false");
    say("The server cannot be reached; nothing was sent. Try again.");
    alertIn(form, "The server cannot be reached. It is not known whether this was done: look before you try again.");
  }
}

function alertIn(form, text) {
  let line = $("#form-error", form);
  if (!line) { line = Object.assign(document.createElement("p"), { id: "form-error", className: "err st failed" }); line.setAttribute("role", "alert"); form.prepend(line) }
  line.textContent = text;
}

dialog?.addEventListener("close", () => { dialog.replaceChildren(); opener?.isConnected && opener.focus(); opener = null });

document.addEventListener("submit", event => {
  const form = event.target;
  if (event.submitter?.ariaDisabled === "true") return event.preventDefault();
  if (form.closest("dialog") && form.method === "post") { event.preventDefault(); send(form, event.submitter) }
  else if (event.submitter && "dialog" in event.submitter.dataset) { event.preventDefault(); openDialog(`${event.submitter.formAction}?${new URLSearchParams(new FormData(form))}`, event.submitter) }
  // What a second click sends has no secret to show, and the page of the first reply would be gone.
  else if (form.method === "post") setTimeout(() => { if (!event.defaultPrevented && event.submitter) Object.assign(event.submitter, { ariaDisabled: "true" }).dataset.sent = "" });
});
addEventListener("pageshow", () => { for (const button of $$("[data-sent]")) { button.ariaDisabled = "false"; delete button.dataset.sent } });

// -- clicks
document.addEventListener("click", event => {
  const button = event.target.closest("button, a");
  if (!button) return;
  const data = button.dataset;
  if (button.ariaDisabled === "true") event.preventDefault();
  else if ("copy" in data) copy(button);
  else if ("dialog" in data && button.href && !event.ctrlKey && !event.metaKey && !event.shiftKey) { event.preventDefault(); openDialog(button.href, button) }
  else if (data.open) { event.preventDefault(); opener = button; $("#" + data.open).showModal() }
  else if ("close" in data && button.closest("dialog")) { event.preventDefault(); button.closest("dialog").close() }
  else if ("themeToggle" in data) { kept.set("theme", root.dataset.theme = isDark() ? "light" : "dark"); document.dispatchEvent(new Event("evertick:theme")) }
  else if ("keysOff" in data) { kept.set("keys", kept.get("keys") === "off" ? "on" : "off"); say(`Single-letter keys are ${kept.get("keys")}`); labelKeys() }
  else if ("live" in data) hold(!held);
  else if ("refresh" in data) { event.preventDefault(); refresh(true) }
});

function copy(button) {
  const text = ($("code", button.parentNode) ?? button.previousElementSibling).textContent.trim();
  navigator.clipboard?.writeText(text);
  button.textContent = "Copied";
  say("Copied");
  setTimeout(() => { button.textContent = "Copy" }, 1500);
}

// -- a typed count arms a button, rows that are ticked arm the bar; both counts come from the server
function arm(node) {
  for (const input of $$("[data-arm]", node)) armOne(input);
}
function armOne(input) {
  const go = document.getElementById(input.dataset.for), isArmed = input.value.trim() === input.dataset.arm;
  go.ariaDisabled = String(!isArmed);
  go.title = isArmed ? "" : `Type “${input.dataset.arm}” first`;
}
// What one types into a field that belongs to one choice of several makes that choice; the server refuses what contradicts.
function chooseWhere(input) {
  const place = input.closest("[data-chooses]"), choice = place && document.getElementById(place.dataset.chooses);
  if (!choice || choice.checked || (place === input && !input.value)) return;
  choice.checked = true;
  say(`Chosen: ${choice.closest("label").textContent.trim()}`);
}
function countRows() {
  const bar = $(".bulk");
  if (!bar) return;
  const count = $$("input[name=row]:checked").length;
  bar.hidden = !count;
  $("[data-n]", bar).textContent = count;
}
document.addEventListener("input", event => {
  const input = event.target;
  if (input.dataset.arm) armOne(input);
  chooseWhere(input);
  if ("all" in input.dataset) for (const row of $$("input[name=row]")) if (row.offsetParent) row.checked = input.checked;
  if (input.name === "row" || "all" in input.dataset) countRows();
});
document.addEventListener("change", event => {
  if (event.target.closest(".fold")) return;
  if (event.target.matches("[data-refill]")) return event.target.form.requestSubmit(event.target.form.elements.choose);
  const form = event.target.closest("[data-submit-on-change]");
  if (form) form.requestSubmit();
});

// -- the command below a form says what the form says: the server makes it of what is typed, and changes nothing. Until
//    it has, the old one cannot be copied; of several replies the last one counts
const TELL_AFTER_MS = 250;
let tellTimer = 0, telling = null;
function tellLater(form) {
  const place = form && $("#command[data-from]", form);
  if (!place) return;
  for (const button of $$("[data-copy]", place)) button.ariaDisabled = "true";
  clearTimeout(tellTimer);
  telling?.abort();
  tellTimer = setTimeout(() => tellCommand(form, place), TELL_AFTER_MS);
}
async function tellCommand(form, place) {
  const mine = telling = new AbortController();
  let found = null;
  try {
    const reply = await fetch(place.dataset.from, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "X-Evertick-Dialog": "1" }, signal: mine.signal });
    found = new DOMParser().parseFromString(await reply.text(), "text/html").getElementById(place.id);
  } catch { /* the server is away, or something else is typed meanwhile */ }
  if (mine.signal.aborted || !place.isConnected) return;
  if (found) await morph(place, found);
  else place.replaceChildren(Object.assign(document.createElement("p"), { className: "small faint", textContent: "The command cannot be told now: the server does not say what it is." }));
}
document.addEventListener("input", event => tellLater(event.target.form));
// A browser that comes back to a page fills in again what was typed.
const isTyped = each => each.type === "radio" || each.type === "checkbox" ? each.checked !== each.defaultChecked : each.matches("input:not([type=hidden]), textarea") && each.value !== each.defaultValue;
addEventListener("pageshow", () => { for (const form of document.forms) if ([...form.elements].some(isTyped)) tellLater(form) });

// -- keys
let prefix = false, row = -1;
function labelKeys() { for (const each of $$("[data-keys-off]")) each.textContent = `Switch single-letter keys ${kept.get("keys") === "off" ? "on" : "off"}` }
labelKeys();
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || kept.get("keys") === "off") return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog, [contenteditable]")) return;
  const key = event.key, rows = $$("tbody tr:not(.note):has(th a)").filter(each => each.offsetParent);
  const go = prefix && $(`[data-go="${CSS.escape(key)}"]`);
  prefix = key === "g";
  if (go) { event.preventDefault(); return go.click() }
  if ("/?jkxptbr".includes(key) && key.length === 1) event.preventDefault();
  if (key === "/") ($(".filters input[type=search]") ?? $("[data-search]"))?.focus();
  else if (key === "?") $("#keys").showModal();
  else if (key === "r") hold(!held);
  else if ((key === "j" || key === "k") && rows.length) {
    $("tr.cur")?.classList.remove("cur");
    row = Math.max(0, Math.min(rows.length - 1, row + (key === "j" ? 1 : -1)));
    rows[row].classList.add("cur");
    $("th a", rows[row]).focus();
  }
  else if (key === "x" && rows[row]) $("input[name=row]", rows[row])?.click();
  else if ("ptb".includes(key) && key.length === 1) {
    const button = $(`[data-key="${key}"]`);
    if (button) { button.focus(); button.click() }
  }
});

// -- live: hints say that something has changed; regions that follow it are read again and morphed, so that focus and
//    half-typed text survive. While pointer or focus is in a table its rows stay where they are, and the news are counted.
const regions = () => $$("[data-follow]");
const liveButton = $("[data-live]"), stale = $("#stale");
const READ_FIRST_MS = 500, READ_MAX_MS = 10_000, LOST_AFTER_MS = 10_000, FOLLOW_AGAIN_MS = 5_000, LOOKED_AT_EVERY_MS = 1_000;
let held = kept.get("live") === "off", source = null, wanted = new Set(), reading = false, leaveAlone = 0, lastRead = Date.parse(root.dataset.now), lostTimer = 0;

function hold(on) {
  held = on;
  kept.set("live", on ? "off" : "on");
  showLive();
  if (!on) { follow(); refresh(true) } else source?.close(), source = null;
}
// While hints come, what is shown is up to date now; else as of the last time that it was read.
function showLive() {
  if (!liveButton) return;
  liveButton.hidden = !regions().length;
  liveButton.classList.toggle("off", held);
  liveButton.firstChild.data = held ? "held " : "live ";
  const isNow = !held && stale.hidden && source?.readyState === EventSource.OPEN && !wanted.size;
  $("i", liveButton).textContent = `as of ${clock(isNow ? now() : lastRead)}`;
}
const clock = ms => new Date(ms).toLocaleTimeString("en-GB", { timeZone: root.dataset.zone });

function follow() {
  if (source || held || document.hidden || !document.body.dataset.events || !regions().length) return;
  source = new EventSource(document.body.dataset.events);
  const alive = () => { clearTimeout(lostTimer); lostTimer = 0; stale.hidden = true };
  source.addEventListener("ready", () => {
    // What changes from now on is told. What changed before, since the page was made, is not: a page that took long reads again.
    const mayHaveMissed = !stale.hidden || lostTimer || (!root.dataset.live && performance.now() > LOOKED_AT_EVERY_MS);
    alive();
    root.dataset.live = "yes";
    if (mayHaveMissed) want("jobs", "schedules", "logs");
  });
  for (const kind of ["jobs", "schedules", "logs"]) source.addEventListener(kind, () => want(kind));
  source.onerror = () => {
    lostTimer ||= setTimeout(() => { $("span", stale).textContent = clock(lastRead); stale.hidden = false }, LOST_AFTER_MS);
    if (source?.readyState === EventSource.CLOSED) { source = null; setTimeout(() => { follow(); want("jobs", "schedules", "logs") }, FOLLOW_AGAIN_MS) }
  };
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { source?.close(); source = null } else if (!held) { follow(); refresh(true) }
});

function want(...kinds) {
  for (const kind of kinds) wanted.add(kind);
  if (!reading) read();
}
async function read() {
  reading = true;
  await pause(READ_FIRST_MS);
  for (let wait = READ_FIRST_MS; wanted.size && !held && !document.hidden;) {
    await refresh(false);
    // The more often something changes, the more seldom it is read, and the server says how seldom at least: fifty
    // open pages must not keep it busy.
    wait = Math.max(Math.min(wait * 2, READ_MAX_MS), leaveAlone);
    await pause(wait);
  }
  reading = false;
}
const isBusy = region => region.matches(":has(table)") && (region.matches(":has(table:hover)") || ($("table", region)?.contains(document.activeElement) ?? false));

async function refresh(forced) {
  const kinds = wanted;
  wanted = new Set();
  const due = regions().filter(region => forced || region.dataset.follow.split(" ").some(kind => kinds.has(kind)));
  if (!due.length || dialog?.open && !forced) return;
  let text;
  try {
    const reply = await fetch(location.href, { headers: { "X-Evertick-Live": "1" } });
    if (reply.redirected) return void location.reload(); // the token has ended: what is shown would never change again
    leaveAlone = Number(reply.headers.get("X-Evertick-Pause"));
    if (!reply.ok) return;
    text = await reply.text();
  } catch { return }
  const fresh = new DOMParser().parseFromString(text, "text/html");
  if (fresh.documentElement.dataset.zone !== root.dataset.zone) return void location.reload(); // another tab has chosen another zone
  lastRead = Date.parse(fresh.documentElement.dataset.now); // the clock of the times on the page, which may be a simulated one
  const known = new Set(regions().map(region => region.id));
  if ($$("[data-follow]", fresh).some(region => !known.has(region.id)) && !document.activeElement?.matches("input, textarea, select")) {
    return void location.reload(); // the first row of a list has come: the page is another one
  }
  for (const region of due) {
    const found = fresh.getElementById(region.id);
    if (!found) continue;
    if (!forced && isBusy(region)) { tellNews(region, found); continue }
    await morph(region, found);
    countRows();
    document.dispatchEvent(new CustomEvent("evertick:filled", { detail: document.getElementById(region.id) }));
  }
  resetClock(fresh.documentElement.dataset);
  showLive();
}
function morph(region, found) {
  reveal(found);
  const ticked = new Set($$("input[name=row]:checked", region).map(input => input.value));
  for (const each of $$("details[open][id]", region)) found.querySelector("#" + CSS.escape(each.id))?.setAttribute("open", "");
  return htmx.swap({ text: found.outerHTML, target: region, sourceElement: region, swap: "outerMorph", select: "#" + CSS.escape(region.id) }).then(() => {
    for (const input of $$("input[name=row]", document.getElementById(region.id))) input.checked = ticked.has(input.value);
  });
}
function tellNews(region, found) {
  const known = new Set($$("tbody tr[id]", region).map(each => each.id));
  const news = $$("tbody tr[id]", found).filter(each => !known.has(each.id)).length;
  const place = $("[data-news]");
  if (!place) return;
  place.replaceChildren();
  if (news) place.append(`order held while you are in the list · `, Object.assign(document.createElement("a"), { href: "", textContent: `${news} new` }));
  $("a", place)?.setAttribute("data-refresh", "");
}
document.addEventListener("pointerout", event => { if (event.target.closest("[data-follow] table") && !event.relatedTarget?.closest?.("[data-follow] table")) { const place = $("[data-news]"); if (place?.childNodes.length) { place.replaceChildren(); refresh(true) } } });

// -- the clock of the page, from which all that shows the present is drawn: that of the server, which may be simulated.
//    Relative times tick by it, from datetime=
let t0, p0, speed;
function resetClock(data) { t0 = Date.parse(data.now); p0 = performance.now(); speed = Number(data.speed ?? 1) }
const now = () => t0 + (performance.now() - p0) * speed;
resetClock(root.dataset);
const lengthOf = s => s < 60 ? `${Math.round(s)} s` : s < 3600 ? `${Math.round(s / 60)} min` : s < 86400 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
function tick() {
  if (document.hidden) return;
  const present = now(), simulated = $("[data-now-shown]");
  showLive();
  if (simulated) simulated.textContent = `${new Date(present).toLocaleDateString("en-GB", { timeZone: root.dataset.zone, weekday: "short", day: "numeric", month: "short" }).replaceAll(",", "")} ${clock(present)}`;
  for (const time of $$("time[datetime] > i")) {
    const away = (Date.parse(time.parentNode.dateTime) - present) / 1000, words = lengthOf(Math.abs(away));
    const text = Math.abs(away) < 1 ? "now" : away > 0 ? `in ${words}` : `${words} ago`;
    if (time.textContent !== text) time.textContent = text;
  }
}
setInterval(tick, 1_000);

// -- a simulated clock: its banner follows it, whoever changes its pace
async function followClock() {
  if (document.hidden) return;
  try {
    const data = await (await fetch(root.dataset.clock)).json();
    const wasMoving = speed > 0;
    resetClock(data);
    tick();
    $("[data-speed-shown]").textContent = data.speed ? `${data.speed} times as fast` : "stands still";
    if (wasMoving !== data.speed > 0 && !$(":focus", $(".clock"))) location.reload();
  } catch { /* the server is away: the banner of the page says so */ }
}
if (root.dataset.clock && $("[data-now-shown]")) setInterval(followClock, 1_000);

// -- where rail and tabs are strips that scroll, the current place is in sight
for (const place of $$(".rail [aria-current], .tabs [aria-current]")) {
  const strip = place.closest(".rail > div, .tabs"), at = place.getBoundingClientRect(), box = strip.getBoundingClientRect();
  strip.scrollLeft += at.left - box.left - (box.width - at.width) / 2;
}

showLive();
follow();
arm(document);
countRows();
