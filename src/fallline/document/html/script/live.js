// A page that a server sends asks it for news, and replaces its content when results have changed.

const ASK_MS = 2000;

function initLive(renew) {
  const status = document.getElementById("live");
  if (!status) return;
  let version = null;
  const say = (words) => { if (status.textContent !== words) status.textContent = words; };
  const ask = async () => {
    try {
      const answer = await fetch("version", { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const now = await answer.text();
      if (version !== null && now !== version) {
        const fresh = await fetch("content", { cache: "no-store" });
        if (!fresh.ok) throw new Error(String(fresh.status));
        renew(await fresh.text());
        say(`Updated ${new Date().toLocaleTimeString()}`);
      } else if (version === null || status.textContent === "Not connected") {
        say("Live");
      }
      version = now;
    } catch {
      say("Not connected");
    }
    setTimeout(ask, ASK_MS);
  };
  ask();
}
