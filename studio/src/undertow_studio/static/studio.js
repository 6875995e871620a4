// The one script of the studio. Everything works without it: it shows parts of forms when they
// matter, moves sliders with their numbers, replaces parts of a page, and waits for work.

import { readCharts } from "./charts.js";

const THEME = "undertow-theme";

/** Light or dark: what was chosen before, else what the system says. */
const theme = () => {
  const button = document.querySelector("[data-theme-toggle]");
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try {
      return localStorage.getItem(THEME);
    } catch {
      return null;
    }
  };
  const dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const name = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", dark() ? "Use light colours" : "Use dark colours");
  };
  const before = kept();
  if (before === "light" || before === "dark") root.dataset.theme = before;
  if (!button) return;
  button.hidden = false;
  name();
  system.addEventListener("change", name);
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    name();
    try {
      localStorage.setItem(THEME, root.dataset.theme);
    } catch {
      // it lasts as long as the page
    }
  });
};

/** Fields that belong to one choice are shown with it. */
const choices = (root) => {
  for (const part of root.querySelectorAll("[data-for]")) {
    const form = part.closest("form");
    const show = () => {
      const chosen = form.querySelector(`input[name="${part.dataset.for}"]:checked`);
      part.hidden = !part.dataset.when.split(" ").includes(chosen?.value);
    };
    show();
    form.addEventListener("change", show);
  }
};

/** A slider and its number say the same. */
const sliders = (root) => {
  for (const slider of root.querySelectorAll("input[type=range][data-mirrors]")) {
    const number = document.getElementById(slider.dataset.mirrors);
    slider.addEventListener("input", () => {
      number.value = slider.value;
      number.dispatchEvent(new Event("input", { bubbles: true }));
    });
    number.addEventListener("input", () => {
      if (document.activeElement !== slider) slider.value = number.value;
    });
  }
};

/** Fetch a part of a page; nothing where the server does not answer. */
const fetched = async (address, signal) => {
  try {
    const answer = await fetch(address, { signal, headers: { Accept: "text/html" } });
    return answer.ok ? await answer.text() : null;
  } catch {
    return null;
  }
};

/** What a limit means, while it is being moved. */
const odds = (root) => {
  const input = root.querySelector("[data-odds]");
  const shown = root.querySelector("[data-odds-shown]");
  if (!input || !shown) return;
  let asking = null;
  input.addEventListener("input", async () => {
    asking?.abort();
    asking = new AbortController();
    const part = await fetched(`/odds?limit=${encodeURIComponent(input.value)}`, asking.signal);
    if (part !== null) shown.innerHTML = part;
  });
};

/** A form whose page is the answer: its parts are replaced while it is filled in. */
const live = (root) => {
  for (const form of root.querySelectorAll("form[data-live]")) {
    let asking = null;
    const ask = async (pressed) => {
      asking?.abort();
      asking = new AbortController();
      const query = new URLSearchParams(new FormData(form));
      if (pressed?.name) query.set(pressed.name, pressed.value);
      const address = `${form.getAttribute("action")}?${query}`;
      const text = await fetched(address, asking.signal);
      if (text === null) return;
      const page = new DOMParser().parseFromString(text, "text/html");
      for (const part of document.querySelectorAll("[data-part]")) {
        const found = page.querySelector(`[data-part="${part.dataset.part}"]`);
        if (found) part.replaceChildren(...found.childNodes);
      }
      if (pressed?.name) {
        form.querySelector(`[name="${pressed.name}"][value="${CSS.escape(pressed.value)}"]`)?.focus();
      }
      wake(document, true);
    };
    let later = 0;
    form.addEventListener("input", () => {
      clearTimeout(later);
      later = setTimeout(ask, 150);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(later);
      ask(event.submitter);
    });
  }
};

/** A model that is being drawn: its picture follows, and each row of sliders adds up to 100%. */
const drawing = (root) => {
  const form = root.querySelector("form[data-draw]");
  if (!form) return;
  let asking = null;
  let later = 0;
  form.querySelector("[data-redraw]").hidden = true;
  const shares = () => {
    for (const row of form.querySelectorAll(".row-sliders")) {
      const sliders = [...row.querySelectorAll("input[type=range]")];
      const total = sliders.reduce((sum, one) => sum + Number(one.value), 0);
      for (const one of sliders) {
        const share = total ? (100 * Number(one.value)) / total : 0;
        one.nextElementSibling.textContent = `${Math.round(share)}%`;
      }
    }
  };
  const ask = async () => {
    asking?.abort();
    asking = new AbortController();
    const query = new URLSearchParams(new FormData(form));
    const text = await fetched(`${form.getAttribute("action")}?${query}`, asking.signal);
    if (text === null) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    const found = page.querySelector('[data-part="picture"]');
    if (found) document.querySelector('[data-part="picture"]').replaceChildren(...found.childNodes);
  };
  form.addEventListener("input", () => {
    shares();
    clearTimeout(later);
    later = setTimeout(ask, 150);
  });
};

/** Wait for work: how far it is, then the page itself. */
const waits = () => {
  const box = document.querySelector("[data-job]");
  if (!box) return;
  const look = async () => {
    let ended = false;
    try {
      const answer = await fetch(`/jobs/${box.dataset.job}`);
      const told = await answer.json();
      ended = told.ended;
      if (!ended && told.part) box.querySelector("[data-progress]").outerHTML = told.part;
    } catch {
      box.querySelector(".step-words").textContent =
        "The studio does not answer. Is it still running?";
    }
    if (ended) location.reload(); // an address with a # would not be loaded again
    else setTimeout(look, 400);
  };
  setTimeout(look, 300);
};

/** Parts that take their time: fetched after the page, with their progress meanwhile. */
const later = (root) => {
  for (const box of root.querySelectorAll("[data-later]")) {
    const address = box.dataset.later;
    const look = async () => {
      const text = await anyhow(address);
      if (text === null) {
        box.textContent = "The studio does not answer. Is it still running?";
        return;
      }
      const page = new DOMParser().parseFromString(text, "text/html");
      const waiting = page.querySelector("[data-job]");
      if (waiting) {
        box.replaceChildren(...waiting.querySelector("[data-progress]").childNodes);
        setTimeout(look, 500);
        return;
      }
      const part = page.querySelector(`[data-part="${box.dataset.part}"]`) ?? page.querySelector("main .lead");
      if (part) box.replaceChildren(...part.childNodes);
      box.removeAttribute("data-later");
      wake(box, true);
    };
    look();
  }
};

/** The text of an answer, refusals included. */
const anyhow = async (address) => {
  try {
    return await (await fetch(address)).text();
  } catch {
    return null;
  }
};

/** Make a page, or a part that was replaced, answer. */
const wake = (root, again = false) => {
  readCharts(root);
  for (const button of root.querySelectorAll("[data-print]")) {
    button.hidden = false;
    if (!again) button.addEventListener("click", () => print());
  }
};

theme();
choices(document);
sliders(document);
odds(document);
live(document);
drawing(document);
waits();
later(document);
wake(document);
document.getElementById("wrong")?.focus();
