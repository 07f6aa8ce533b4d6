// The preview follows what is typed: the form is sent, and what the server says about it takes its place.
// Whatever is typed stays: only places that hold nothing typed are replaced, and rows when a button asks for it.
const editor = document.getElementById("editor");
const WAIT_MS = 250;
let timer = 0, asking = null;

async function ask(submitter) {
  asking?.abort();
  asking = new AbortController();
  const data = new URLSearchParams(new FormData(editor, submitter));
  if (!submitter) data.set("do", "preview");
  const reply = await fetch(editor.dataset.preview, { method: "POST", body: data, signal: asking.signal });
  if (!reply.ok) throw new Error(reply.status);
  return new DOMParser().parseFromString(await reply.text(), "text/html");
}

function fillSlots(fresh) {
  for (const slot of editor.querySelectorAll("[data-slot]")) {
    const found = fresh.getElementById(slot.id);
    if (!found) continue;
    if (slot.innerHTML !== found.innerHTML) slot.innerHTML = found.innerHTML;
    slot.hidden = found.hidden;
    if (!slot.id.endsWith("-e")) continue;
    const field = document.getElementById(slot.id.slice(0, -2));
    if (slot.hidden) field?.removeAttribute("aria-invalid"); else field?.setAttribute("aria-invalid", "true");
  }
}

function fillArguments(fresh) {
  const found = fresh.getElementById("arguments");
  if (found) document.getElementById("arguments").replaceWith(document.adoptNode(found));
}

async function preview(isOther) {
  try {
    const fresh = await ask(null);
    if (isOther) fillArguments(fresh);
    fillSlots(fresh);
  } catch (error) { if (error.name !== "AbortError") unknown() }
}

function unknown() {
  const line = document.getElementById("f--e");
  line.textContent = "The preview cannot be read now. What you typed is still here.";
  line.hidden = false;
}

async function switchArguments(button) {
  clearTimeout(timer);
  try { fillArguments(await ask(button)) } catch (error) { if (error.name !== "AbortError") unknown(); return }
  editor.querySelector("#arguments button")?.focus();
}

async function change(button) {
  clearTimeout(timer);
  let fresh;
  try { fresh = await ask(button) } catch (error) { if (error.name !== "AbortError") unknown(); return }
  const rows = editor.querySelectorAll(".rows");
  fresh.querySelectorAll("#editor .rows").forEach((found, index) => rows[index].replaceWith(document.adoptNode(found)));
  fillSlots(fresh);
  const [action, where] = button.value.split(":");
  const again = action === "add" ? [...editor.querySelectorAll(`[name=${where}]`)].at(-1)?.parentNode : editor.querySelector(".rows");
  again?.querySelector("input:checked, input:not([type=hidden]), textarea, button")?.focus();
}

editor.addEventListener("input", event => {
  if (event.target.name?.startsWith("take.")) return;
  clearTimeout(timer);
  const isOther = event.target.name === "function";
  timer = setTimeout(() => preview(isOther), WAIT_MS);
});
editor.addEventListener("submit", event => {
  const button = event.submitter;
  if (button?.value === "preview") { event.preventDefault(); preview() }
  else if (button?.name === "args_switch") { event.preventDefault(); switchArguments(button) }
  else if (button?.name === "do" && button.value !== "save") { event.preventDefault(); change(button) }
});
editor.classList.add("scripted");
