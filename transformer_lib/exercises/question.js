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
  const number = Number(text.replace(",", "."));
  return text && Number.isFinite(number) ? String(Number(number.toPrecision(6))) : "";
}

function reply(answer) {
  if (data.kind !== "several") {
    return [answer === data.right, data.replies[answer] || data.otherwise];
  }
  const wrong = Object.keys(data.replies).filter(
    (letter) => answer.includes(letter) !== data.right.includes(letter));
  if (wrong.length) return [false, `Look again at ${wrong[0]}. ${data.replies[wrong[0]]}`];
  return [true, [...data.right].map((letter) => data.replies[letter]).join(" ")];
}

section.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const answer = given();
  if (!answer) {
    output.textContent = "Give an answer first.";
    section.classList.remove("e-right", "e-wrong");
    return;
  }
  const [right, says] = reply(answer);
  section.classList.toggle("e-right", right);
  section.classList.toggle("e-wrong", !right);
  output.textContent = `${right ? "✓ Right." : "✗ Not yet."} ${says}`;
});
