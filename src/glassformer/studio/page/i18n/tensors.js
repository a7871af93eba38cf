export const en = {
  search: "Search", searchHint: "part of a name, such as layers.3 or pattern", tensorsFound: "{0} of {1} tensors",
  tooMany: "… and {0} more: narrow the search", chooseTensor: "There is no tensor {0} in this trace: choose another.", shape: "shape",
  size: "size", slice: "Slice", sliceHint: "as in numpy: 0,3,:,:", download: "Download .npy", least: "least", greatest: "greatest",
  mean: "mean", deviation: "deviation", notAMatrix: "More than two axes are left: fix some with a number.",
  activation: "activation", output: "output", weight: "weight",
};
export const zh = {
  search: "搜索", searchHint: "名称的一部分，例如 layers.3 或 pattern", tensorsFound: "共 {1} 个张量，找到 {0} 个",
  tooMany: "……还有 {0} 个：请缩小搜索范围", chooseTensor: "这次记录里没有张量 {0}：请另选一个。", shape: "形状",
  size: "大小", slice: "切片", sliceHint: "与 numpy 相同：0,3,:,:", download: "下载 .npy", least: "最小值", greatest: "最大值",
  mean: "均值", deviation: "标准差", notAMatrix: "剩下的轴多于两个：请用数字固定一些。",
  activation: "激活", output: "输出", weight: "权重",
};
