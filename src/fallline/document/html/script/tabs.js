// Tabs by click and by arrow keys; results of a page, and the sides of a figure.

const tabState = new Map(); // list of tabs → the panel that is open

function initTabs(scope) {
  for (const list of scope.querySelectorAll("[role=tablist]")) {
    const tabs = [...list.querySelectorAll("[role=tab]")];
    const key = tabs[0].id;
    const open = (wanted) => {
      tabState.set(key, wanted.id);
      for (const tab of tabs) {
        const on = tab === wanted;
        tab.setAttribute("aria-selected", String(on));
        tab.tabIndex = on ? 0 : -1;
        document.getElementById(tab.getAttribute("aria-controls")).hidden = !on;
      }
      drawVisible();
    };
    tabs.forEach((tab, at) => {
      tab.addEventListener("click", () => open(tab));
      tab.addEventListener("keydown", (event) => {
        const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 };
        if (!(event.key in steps)) return;
        event.preventDefault();
        const next = tabs[(steps[event.key] + tabs.length) % tabs.length];
        open(next);
        next.focus();
      });
    });
    open(tabs.find((tab) => tab.id === tabState.get(key)) || tabs[0]);
  }
}
