// The curves of a forecast: compiles against padding, a point per plan. All that the data says is put in as text.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const place of document.querySelectorAll("[data-curve]")) {
    const plans = data[Number(place.dataset.curve)].filter((plan) => plan.compiles !== null);
    if (!plans.length) continue;
    const padded = plans.filter((plan) => plan.title !== "as it is" && plan.title !== "marked dynamic");
    place.append(Plot.plot({
      width: 820,
      height: 300,
      marginLeft: 56,
      style: {background: "none", fontSize: "12px"},
      ariaLabel: "Compiles against padding, a point per plan",
      x: {label: "compiles", grid: true, nice: true, tickFormat: "d"},
      y: {label: "% of the work is padding", grid: true, zero: true},
      marks: [
        Plot.line(padded, {x: "compiles", y: "padding", stroke: "var(--dim)"}),
        Plot.dot(plans, {x: "compiles", y: "padding", r: (plan) => (plan.chosen ? 7 : 4), fill: (plan) => (plan.chosen ? "var(--good)" : "var(--link)")}),
        Plot.tip(plans, Plot.pointer({x: "compiles", y: "padding", title: (plan) =>
          `${plan.title}\n${plan.compiles} compiles, ${plan.padding.toFixed(0)} % padding` +
          (plan.total === null ? "" : `\n${plan.total.toFixed(1)} s in all`)})),
      ],
    }));
  }
})();
