// Lets the page start without network, where the browser allows it.

const NEEDS =
  "This page starts only with network, because it is not open by HTTPS with a " +
  "certificate that this device trusts.";

// Shows in `warning` that the page needs the network, and `button` when a new version
// of the page is there. The person chooses the moment: a reload may miss a scan.
export async function useWorker(warning, button) {
  try {
    const found = await navigator.serviceWorker.register("worker.js", {
      updateViaCache: "none",
    });
    button.addEventListener("click", () => use(found.waiting));
    // Another tab may have found the new version before this one listens.
    watch(found, button);
    found.addEventListener("updatefound", () => watch(found, button));
    // Another tab has put the new version to use, and this one shows the old one still.
    navigator.serviceWorker.addEventListener("controllerchange", () => {
      button.hidden = false;
    });
    addEventListener("online", () => found.update().catch(() => {}));
  } catch {
    // Without network it cannot be registered again, and need not be.
    if (navigator.serviceWorker?.controller) return;
    warning.textContent = NEEDS;
    warning.hidden = false;
  }
}

function watch(found, button) {
  offer(found, button);
  found.installing?.addEventListener("statechange", () => offer(found, button));
}

function offer(found, button) {
  if (found.waiting && navigator.serviceWorker.controller) button.hidden = false;
}

// Without a worker that waits, another tab has put the new version to use already.
function use(worker) {
  if (!worker) {
    location.reload();
    return;
  }
  navigator.serviceWorker.addEventListener("controllerchange", () => location.reload());
  worker.postMessage("use");
}
