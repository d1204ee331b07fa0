/* Take an answer to a question of the page, and show the reply to it. */
const section = document.currentScript.closest(".exercise");
const bytes = Uint8Array.from(atob(section.dataset.answers), (c) => c.charCodeAt(0));
const data = JSON.parse(new TextDecoder().decode(bytes));
const inputs = [...section.querySelectorAll("input")];
const output = section.querySelector("output");

/* The answer in the form in which the replies are listed, or "" without one. */
function given() {
  const chosen = inputs.filter((input) => input.checked).map((input) => input.value);
  if (data.kind === "choice" || data.kind === "several") return chosen.join("");
  const text = inputs[0].value.trim();
  if (data.kind === "shape") return (text.match(/\d+/g) || []).join(", ");
  const number = read(text);
  if (!text || !Number.isFinite(number)) return "";
  const near = Object.keys(data.replies).find((known) =>
    Math.abs(number - known) <= (Number.isInteger(Number(known)) ? 0 : Math.abs(known) / 100));
  return near || String(number);
}

/* Read 0.5, .5, 1/2, 0,5 and 65,000,000. */
function read(text) {
  const parts = text.split("/").map((part) => Number(part.trim()
    .replace(/^-?\d{1,3}(,\d{3})+$/, (whole) => whole.replaceAll(",", ""))
    .replace(",", ".")));
  return parts.length === 2 ? parts[0] / parts[1] : parts.length === 1 ? parts[0] : NaN;
}

function reply(answer) {
  if (data.kind !== "several") {
    return [answer === data.right, data.replies[answer] || data.otherwise];
  }
  if (answer === data.right) {
    return [true, [...data.right].map((letter) => data.replies[letter]).join(" ")];
  }
  return [false, partly([...answer])];
}

/* Reply to wrong letters without naming a missing one; as in question.py. */
function partly(letters) {
  const found = letters.filter((letter) => data.right.includes(letter));
  const wrong = letters.filter((letter) => !data.right.includes(letter));
  const confirmed = found.length ? `You are right about ${found.join(" and ")}. ` : "";
  if (wrong.length) return confirmed + data.replies[wrong[0]];
  const missing = data.right.length - found.length, more = found.length ? " more" : "";
  return confirmed + (missing === 1
    ? `One${more} check fails.` : `${missing}${more} checks fail.`);
}

/* Show a text; what stands between backticks is code. */
function show(text) {
  output.replaceChildren(...text.split("`").map((part, i) => {
    if (i % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  }));
}

section.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const answer = given();
  if (!answer) {
    show("Give an answer first.");
    section.classList.remove("e-right", "e-wrong");
    return;
  }
  const [right, says] = reply(answer);
  section.classList.toggle("e-right", right);
  section.classList.toggle("e-wrong", !right);
  show(`${right ? "✓ Right." : "✗ Not yet."} ${says}`);
});
