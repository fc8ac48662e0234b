// The sidebar is longer than a screen: bring the entry of this page into view.
addEventListener("DOMContentLoaded", () => {
  const list = document.querySelector(".sidebar-scroll");
  const entry = document.querySelector(".sidebar-tree .current-page");
  if (!list || !entry) return;
  const [frame, place] = [list.getBoundingClientRect(), entry.getBoundingClientRect()];
  if (place.bottom > frame.bottom) list.scrollTop += place.top - frame.top - frame.height / 2;
});
