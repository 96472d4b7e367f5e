"""How well can 200 noisy observations of Burgers' equation resolve the viscosity?

The built-in benchmark: four layouts of observation sites, 200 noise replicas each, refitted
with the solver that simulated the data. The remaining error comes from the observations: no
training method can avoid it.
"""

import twoaxis as ta

found = ta.resolve("burgers", progress=False)

print(found)
print()

interval = found.interval("mean")
print(f"mean error        {float(found.error_percent.mean()):6.2f}%", end="")
print(f"   95% interval {interval.low:.2f} to {interval.high:.2f}")
print(f"Fisher prediction {float(found.fisher_error_percent.mean()):6.2f}%")
print(f"coverage          {100 * float(found.coverage):6.2f}%   (nominal 95%)")

excluded = list(found.excluded_parameters)
print(f"{len(excluded)} of 241 bank values, up to nu = {max(excluded):.4g}, were left out:")
print("  " + found.excluded_parameters[excluded[0]])

# The dataset that the study itself trained on is one draw from this distribution.
draw = ta.published_dataset("burgers", 9)
real = ta.resolve("burgers", layouts=[9], data={9: draw.values}, replicas=200, progress=False)
one = real.data.sel(parameter="nu", layout="9")
closer = float((real.error_percent.sel(layout="9") < one["data_deviation_percent"]).mean())
print(f"\nThe matched estimate of the study's dataset 9 is nu = {float(one['data_estimate']):.5f},")
print(f"with a 95% profile interval from {float(one['data_set_lower']):.5f}", end="")
print(f" to {float(one['data_set_upper']):.5f};")
print(f"its error is {float(one['data_deviation_percent']):.2f}%,", end=" ")
print(f"and {100 * closer:.0f}% of new noise draws have a smaller error.")
